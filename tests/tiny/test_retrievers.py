"""More of them, with their encoders, in tests/retrieval/encoders."""

from __future__ import annotations

import json

import pytest
import torch

from docagent_rl.tiny.retrievers import TinyRetriever, build_retriever

ARCHITECTURES = {
    TinyRetriever.COLBERT: "hfcolbert",
    TinyRetriever.DENSE_TEXT: "bertmodel",
    TinyRetriever.DENSE_IMAGE: "qwen2vlforconditionalgeneration",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(TinyRetriever))
def test_a_tiny_model_is_small_and_in_its_layout(kind, tmp_path):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    folder = build_retriever(kind, tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 6 << 20
    assert not list(folder.rglob("*.bin"))
    if kind is TinyRetriever.COLQWEN2_ADAPTER:
        assert json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"] == "base"
        return
    (architecture,) = json.loads((folder / "config.json").read_text())["architectures"]
    expected = ARCHITECTURES.get(kind, kind.value.replace("_", "").lower())
    assert architecture.replace("_", "").lower() == expected

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
import verl  # noqa: F401  (whose plugin installs the patches)
from transformers import Qwen2_5_VLConfig, Qwen2Config, Qwen2VLConfig

from docagent_rl.training.platforms.detect import is_cpu_platform

PROBE = Path(__file__).with_name("vllm_probe.py")
PROBE_TIMEOUT_S = 300


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def cpu_only() -> None:
    if not is_cpu_platform():
        pytest.skip("for the platform cpu")


def text_config() -> dict:
    return {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "layer_types": ["full_attention"],
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 64,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": 0,
    }


SPECIAL = {"image_token_id": 60, "video_token_id": 61, "vision_start_token_id": 62, "vision_end_token_id": 63}
VISION = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 32}


@pytest.fixture
def qwen2_config() -> Qwen2Config:
    small = {name: text_config()[name] for name in list(text_config())[:4]}
    return Qwen2Config(**small, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=False)


@pytest.fixture
def qwen2_5_vl_config() -> Qwen2_5_VLConfig:
    vision = {**VISION, "window_size": 56, "fullatt_block_indexes": [1]}
    return Qwen2_5_VLConfig(text_config=text_config(), vision_config=vision, **SPECIAL)


@pytest.fixture
def qwen2_vl_config() -> Qwen2VLConfig:
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2, "num_heads": 2}
    return Qwen2VLConfig(text_config=text_config(), vision_config=vision, **SPECIAL)


class _Probe:
    """A run of `vllm_probe.py`; two at a time would share the address of the weights."""

    def __init__(self, python: Path, folder: Path, *options: str) -> None:
        self._log = folder / "log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [python, str(PROBE), str(folder / "model"), *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "2"},
            )

    def report(self) -> dict:
        output, _ = self.process.communicate(timeout=PROBE_TIMEOUT_S)
        reports = [line for line in output.splitlines() if line.startswith("REPORT ")]
        assert reports, self._log.read_text()[-4000:]
        return json.loads(reports[0].removeprefix("REPORT "))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session", autouse=True)
def _vllm_probe(request, tmp_path_factory):
    """Run the vLLM probe beside the other tests: it takes about half a minute of its own."""
    if not any("vllm_report" in getattr(item, "fixturenames", ()) for item in request.session.items):
        yield None
        return
    probe = _Probe(request.getfixturevalue("warm_python"), tmp_path_factory.mktemp("vllm"))
    yield probe
    probe.end()


@pytest.fixture(scope="session")
def vllm_report(_vllm_probe) -> dict:
    pytest.importorskip("vllm")
    return _vllm_probe.report()


@pytest.fixture(scope="session")
def tied_report(vllm_report, tmp_path_factory, warm_python) -> dict:
    """As `vllm_report`, of a model whose head shares the embedding's weight; and what seeds sample."""
    probe = _Probe(warm_python, tmp_path_factory.mktemp("vllm_tied"), "--tied")
    try:
        return probe.report()
    finally:
        probe.end()

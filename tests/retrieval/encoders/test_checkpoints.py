"""Weights are the checkpoint's, all of them, and positions those that the model was trained with."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from docagent_rl.errors import UserError
from docagent_rl.retrieval.encoders.opening import open_encoder
from docagent_rl.tiny.retrievers import TinyRetriever
from tests.retrieval.encoders.conftest import MINILM, assert_same, tiny_spec

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(tiny, tmp_path):
    """A copy of a tiny model, to be changed."""

    def copy(kind):
        return shutil.copytree(tiny(kind), tmp_path / kind.value)

    return copy


def rename(file, change):
    """Give the weights of a file other names; those that become None are left out."""
    renamed = {change(name): tensor for name, tensor in load_file(file).items()}
    save_file({name: t for name, t in renamed.items() if name}, file, metadata={"format": "pt"})


def rewrite(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_both_libraries_give_the_same_vectors(tiny, encoder, copied, pictures):
    """transformers alone numbers the patches of a page like words: 0.1 apart."""
    folder = copied(TinyRetriever.COLQWEN2_FOR_RETRIEVAL)
    weights = load_file(tiny(TinyRetriever.COLQWEN2) / "model.safetensors")

    def name(old):
        own = old.replace("custom_text_proj", "embedding_proj_layer")
        return own if own != old else f"vlm.{old}"

    renamed = {name(key): tensor for key, tensor in weights.items()}
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    ours = encoder(TinyRetriever.COLQWEN2, query_prompt="Query: {}" + "<|endoftext|>" * 10)
    # the query's prefix is transformers' own
    spec = tiny_spec(TinyRetriever.COLQWEN2_FOR_RETRIEVAL, folder, query_prompt="Query: {}")
    theirs = open_encoder(spec, batch_size=2)
    assert_same(theirs.encode_pages(pictures), ours.encode_pages(pictures))
    queries = ["revenue", "what is in the table of the last year?"]
    assert_same(theirs.encode_queries(queries)[0][:3], ours.encode_queries(queries)[0][:3])


def test_an_adapter_changes_its_base(encoder, tiny, pictures):
    adapted = encoder(TinyRetriever.COLQWEN2_ADAPTER)
    base = open_encoder(tiny_spec(TinyRetriever.COLQWEN2, tiny(TinyRetriever.COLQWEN2_ADAPTER) / "base"))
    one, other = adapted.encode_pages(pictures[:1])[0], base.encode_pages(pictures[:1])[0]
    assert one.shape == other.shape
    assert np.abs(one - other).max() > 0.01
    assert adapted.fingerprint != base.fingerprint


def test_an_adapter_with_names_of_2024_is_the_same(copied, encoder, pictures):
    """As colqwen2-v1.0 is published; transformers 5.9 goes on with an adapter drawn at random."""
    folder = copied(TinyRetriever.COLQWEN2_ADAPTER)
    rename(
        folder / "adapter_model.safetensors",
        lambda name: name.replace("base_model.model.language_model.", "base_model.model.model."),
    )
    old = open_encoder(tiny_spec(TinyRetriever.COLQWEN2_ADAPTER, folder))
    assert_same(old.encode_pages(pictures), encoder(TinyRetriever.COLQWEN2_ADAPTER).encode_pages(pictures))
    rename(folder / "adapter_model.safetensors", lambda name: name.replace("q_proj", "p_proj"))
    with pytest.raises(UserError, match="8 weights"):
        open_encoder(tiny_spec(TinyRetriever.COLQWEN2_ADAPTER, folder))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        # as vidore/colqwen2-base is published
        (TinyRetriever.COLQWEN2, {"language_model.": "model."}),
        # as llamaindex/vdr-2b-v1 is: layers beside the vision tower, no output layer of its own
        (TinyRetriever.DENSE_IMAGE, {"model.language_model.": "model.", "model.visual.": "visual."}),
    ],
)
def test_a_model_with_names_of_2024_is_the_same(copied, encoder, pictures, kind, names):
    folder = copied(kind)
    for new, old in names.items():
        rename(folder / "model.safetensors", lambda name, new=new, old=old: name.replace(new, old))
    assert not [key for key in load_file(folder / "model.safetensors") if next(iter(names)) in key]
    same = encoder(kind).encode_pages(pictures[:2])
    assert_same(open_encoder(tiny_spec(kind, folder)).encode_pages(pictures[:2]), same)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (TinyRetriever.COLIDEFICS3, "linear."),
        (TinyRetriever.COLQWEN2_FOR_RETRIEVAL, "embedding_proj_layer"),
        (TinyRetriever.DENSE_IMAGE, "visual.merger"),
    ],
)
def test_weights_that_would_be_drawn_at_random_are_refused(copied, kind, part):
    folder = copied(kind)
    rename(folder / "model.safetensors", lambda name: None if part in name else name)
    with pytest.raises(UserError, match=part.strip(".")):
        open_encoder(tiny_spec(kind, folder))


def test_a_dense_model_is_no_late_interaction_model(tiny):
    """sentence-transformers adds a projection drawn at random, and says so to nobody."""
    with pytest.raises(UserError, match=r"modules\.json"):
        open_encoder({**MINILM, "family": "colbert"})
    with pytest.raises(UserError, match="colqwen2"):
        open_encoder({"family": "colbert", "model": str(tiny(TinyRetriever.COLQWEN2))})


def test_a_model_of_another_family_is_named(tiny):
    for family, kind, types in (
        ("colqwen2", TinyRetriever.COLQWEN2_5, "qwen2_5_vl.*qwen2_vl"),
        ("colpali", TinyRetriever.COLIDEFICS3, "idefics3.*paligemma"),
    ):
        with pytest.raises(UserError, match=types):
            open_encoder({**tiny_spec(kind, tiny(kind)).model_dump(mode="json"), "family": family})


def test_files_that_are_cut_are_one_error(copied):
    for name in ("model.safetensors", "tokenizer.json", "processor_config.json", "config.json"):
        folder = copied(TinyRetriever.COLQWEN2)
        file = folder / name
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        with pytest.raises(UserError, match=r"colqwen2"):
            open_encoder(tiny_spec(TinyRetriever.COLQWEN2, folder))
        shutil.rmtree(folder)

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from docagent_rl.documents.store import PageContent
from docagent_rl.errors import UserError
from docagent_rl.retrieval.encoders.files import model_folder
from docagent_rl.retrieval.encoders.opening import open_encoder
from docagent_rl.tiny.retrievers import TinyRetriever
from tests.retrieval.encoders.conftest import MINILM

pytestmark = pytest.mark.slow

REVENUE = "The revenue of the company rose to 12 million in 2019. "
WHALES = "Blue whales feed on krill in the southern ocean. "


def test_the_embedded_model_finds_what_is_meant(minilm):
    pages = [WHALES * 3, REVENUE * 3, "A recipe for bread with yeast and flour."]
    query = minilm.encode_queries(["how much did the firm earn in 2019?"])[0]
    scores = [float((query @ page.T).sum(0).max()) for page in minilm.encode_pages(pages)]
    assert scores[1] > 0.4 > max(scores[0], scores[2])
    assert (minilm.dim, minilm.content) == (384, PageContent.TEXT)


def test_it_is_what_sentence_transformers_gives(minilm):
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(model_folder(MINILM["model"])), device="cpu")
    texts = ["one short text", WHALES, REVENUE]
    expected = reference.encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(np.concatenate(minilm.encode_pages(texts)), expected, atol=1e-5)
    np.testing.assert_allclose(np.concatenate(minilm.encode_queries(texts)), expected, atol=1e-5)


def test_the_end_of_a_long_page_is_found(minilm):
    """The model reads 256 tokens; what stands behind them has a vector too."""
    long = WHALES * 50 + REVENUE * 10
    (vectors,) = minilm.encode_pages([long])
    assert len(vectors) > 2
    query = minilm.encode_queries(["how much did the firm earn in 2019?"])[0]
    scores = (vectors @ query[0]).tolist()
    assert scores.index(max(scores)) == len(scores) - 1
    assert max(scores) > scores[0] + 0.15


def test_passages_are_as_long_as_asked(minilm):
    page = "word " * 400
    short = open_encoder({**MINILM, "page_tokens": 66, "overlap": 0})
    assert len(minilm.encode_pages([page])[0]) == 2
    assert len(short.encode_pages([page])[0]) == 7
    assert short.fingerprint != minilm.fingerprint


def test_blank_pages_have_no_vector_and_no_page_no_answer(minilm):
    shapes = [vectors.shape for vectors in minilm.encode_pages([" \n", "", "x"])]
    assert shapes == [(0, 384), (0, 384), (1, 384)]
    assert minilm.encode_pages([]) == []
    assert minilm.encode_queries([]) == []


def test_prompts_are_put_around_texts(minilm):
    prompted = open_encoder({**MINILM, "query_prompt": "query: {}", "page_prompt": "passage: {} ."})
    text = "the revenue"
    np.testing.assert_allclose(
        prompted.encode_queries([text])[0], minilm.encode_queries([f"query: {text}"])[0], atol=1e-5
    )
    np.testing.assert_allclose(
        prompted.encode_pages([text])[0], minilm.encode_pages([f"passage: {text} ."])[0], atol=1e-5
    )
    assert prompted.fingerprint != minilm.fingerprint


def test_dims_are_the_first_ones(minilm):
    cut = open_encoder({**MINILM, "dims": 64})
    whole, found = minilm.encode_pages([WHALES])[0], cut.encode_pages([WHALES])[0]
    np.testing.assert_allclose(found, whole[:, :64] / np.linalg.norm(whole[:, :64]), atol=1e-5)


def test_a_copy_of_the_model_is_the_same_and_says_its_weights(minilm, tmp_path):
    copy = shutil.copytree(model_folder(MINILM["model"]), tmp_path / "copy")
    spec = {**minilm.spec.model_dump(mode="json"), "model": str(copy)}
    assert open_encoder(spec).fingerprint == minilm.fingerprint
    with (copy / "model.safetensors").open("r+b") as file:
        file.seek(-4, 2)
        file.write(b"\0\0\0\0")
    with pytest.raises(UserError, match=str(copy)):
        open_encoder(spec)


def test_pooling_is_stated_where_the_checkpoint_says_nothing(tmp_path, minilm):
    plain = shutil.copytree(model_folder(MINILM["model"]), tmp_path / "plain")
    (plain / "modules.json").unlink()
    spec = {**MINILM, "model": str(plain)}
    with pytest.raises(UserError, match=r"modules\.json.*pooling"):
        open_encoder(spec)
    mean = open_encoder({**spec, "pooling": "mean"})
    np.testing.assert_allclose(mean.encode_pages([WHALES])[0], minilm.encode_pages([WHALES])[0], atol=1e-5)
    first = open_encoder({**spec, "pooling": "cls"}).encode_pages([WHALES])[0]
    assert np.abs(first - minilm.encode_pages([WHALES])[0]).max() > 0.01
    with pytest.raises(UserError, match=r"mean.*cls"):
        open_encoder({**MINILM, "pooling": "cls"})


def test_code_of_a_checkpoint_is_not_run(tmp_path):
    folder = shutil.copytree(model_folder(MINILM["model"]), tmp_path / "own")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "custom_st.Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "custom_st.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    with pytest.raises(UserError, match=r"custom_st\.Transformer"):
        open_encoder({**MINILM, "model": str(folder)})
    assert not (tmp_path / "ran").exists()


def test_a_causal_model_is_made_to_read_both_ways(tmp_path):
    """gte-Qwen2; with and without padding, which are two ways through the library."""
    from transformers import Qwen2Config, Qwen2Model

    from docagent_rl.tiny.retriever_parts import randomise
    from docagent_rl.tiny.tokenizer import build_tokenizer

    tokenizer = build_tokenizer()
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = Qwen2Model(config).eval()
    randomise(model, 0)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    spec = {"family": "sentence_transformer", "model": str(tmp_path), "pooling": "cls", "page_tokens": 64}
    texts = ["the revenue rose", "the revenue fell", "the whales of the southern ocean and their food"]
    # the first token sees what follows it in one direction only when it looks there
    causal = open_encoder(spec, batch_size=3)
    one, two, _ = causal.encode_pages(texts)
    np.testing.assert_allclose(one, two, atol=1e-6)
    both = open_encoder({**spec, "bidirectional": True}, batch_size=3)
    together = both.encode_pages(texts)
    alone = [both.encode_pages([text])[0] for text in texts]
    assert np.abs(together[0] - together[1]).max() > 1e-3
    for first, second in zip(together, alone, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)


def test_images_by_sentence_transformers(tmp_path, tiny, pictures):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    plain = str(tiny(TinyRetriever.DENSE_IMAGE))
    transformer = Transformer(plain)
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="lasttoken")
    SentenceTransformer(modules=[transformer, pooling, Normalize()], device="cpu").save(str(tmp_path))
    spec = {"family": "sentence_transformer", "content": "image", "model": str(tmp_path)}
    model = open_encoder(spec, batch_size=2)
    together = model.encode_pages(pictures)
    for page, vectors in zip(pictures, together, strict=True):
        assert vectors.shape == (1, 128)
        np.testing.assert_allclose(model.encode_pages([page])[0], vectors, atol=1e-5)
    assert model.encode_queries(["revenue"])[0].shape == (1, 128)
    assert np.abs(together[0] - together[1]).max() > 1e-3

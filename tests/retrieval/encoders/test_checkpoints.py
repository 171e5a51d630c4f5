"""All weights come from the checkpoint, and positions are those that the model was trained with."""

import json
import shutil

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.checkpoints import model_folder
from docagent_rl.retrieval.encoders.opening import open_encoder
from tests.retrieval.encoders.conftest import MINILM, assert_same, tiny_spec
from tests.tiny_retrievers import TinyRetriever

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(tiny, tmp_path):
    """Return a copy of a tiny model that the test may change."""

    def copy(kind):
        return shutil.copytree(tiny(kind), tmp_path / kind.value)

    return copy


def rename(file, change):
    """Rename the weights in a file; those whose new name is None are left out."""
    renamed = {change(name): tensor for name, tensor in load_file(file).items()}
    save_file({name: t for name, t in renamed.items() if name}, file, metadata={"format": "pt"})


def rewrite(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_an_adapter_changes_its_base_also_with_names_of_2024(copied, encoder, pictures):
    """The adapter's names are those of colqwen2-v1.0; transformers 5.9 would silently use a
    randomly initialised adapter.
    """
    folder = copied(TinyRetriever.COLQWEN2_ADAPTER)
    adapted = encoder(TinyRetriever.COLQWEN2_ADAPTER)
    base = open_encoder(tiny_spec(TinyRetriever.COLQWEN2, folder / "base"))
    one, other = adapted.encode_pages(pictures[:1])[0], base.encode_pages(pictures[:1])[0]
    assert np.abs(one - other).max() > 0.01
    assert adapted.fingerprint != base.fingerprint
    weights, now = folder / "adapter_model.safetensors", "base_model.model.language_model."
    rename(weights, lambda name: name.replace(now, "base_model.model.model."))
    old = open_encoder(tiny_spec(TinyRetriever.COLQWEN2_ADAPTER, folder))
    assert_same(old.encode_pages(pictures), adapted.encode_pages(pictures))
    rename(weights, lambda name: name.replace("q_proj", "p_proj"))
    with pytest.raises(UserError, match="8 weights"):
        open_encoder(tiny_spec(TinyRetriever.COLQWEN2_ADAPTER, folder))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        # as vidore/colqwen2-base is published
        (TinyRetriever.COLQWEN2, {"language_model.": "model."}),
        # as llamaindex/vdr-2b-v1 is: layers beside the vision tower, no output layer of its own
        (
            TinyRetriever.DENSE_IMAGE,
            {"model.language_model.": "model.", "model.visual.": "visual."},
        ),
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
    [(TinyRetriever.COLQWEN2, "custom_text_proj"), (TinyRetriever.DENSE_IMAGE, "visual.merger")],
)
def test_weights_that_would_be_drawn_at_random_are_refused(copied, kind, part):
    folder = copied(kind)
    rename(folder / "model.safetensors", lambda name: None if part in name else name)
    with pytest.raises(UserError, match=part.strip(".")):
        open_encoder(tiny_spec(kind, folder))


def test_a_dense_model_is_no_late_interaction_model(tiny):
    """sentence-transformers would silently add a randomly initialised projection."""
    with pytest.raises(UserError, match=r"modules\.json"):
        open_encoder({**MINILM, "family": "colbert"})
    with pytest.raises(UserError, match="colqwen2"):
        open_encoder({"family": "colbert", "model": str(tiny(TinyRetriever.COLQWEN2))})


def test_a_model_of_another_family_is_named(tiny):
    spec = tiny_spec(TinyRetriever.COLQWEN2_5, tiny(TinyRetriever.COLQWEN2_5)).model_dump(
        mode="json"
    )
    with pytest.raises(UserError, match=r"qwen2_5_vl.*qwen2_vl"):
        open_encoder({**spec, "family": "colqwen2"})


def test_files_that_are_cut_are_one_error(copied):
    for name in ("model.safetensors", "tokenizer.json", "processor_config.json", "config.json"):
        folder = copied(TinyRetriever.COLQWEN2)
        file = folder / name
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        with pytest.raises(UserError, match=r"colqwen2"):
            open_encoder(tiny_spec(TinyRetriever.COLQWEN2, folder))
        shutil.rmtree(folder)


REVENUE = "The revenue of the company rose to 12 million in 2019. "
WHALES = "Blue whales feed on krill in the southern ocean. "
QUESTION = ["how much did the firm earn in 2019?"]


@pytest.fixture
def minilm_copy(tmp_path):
    """Return a copy of the embedded model that the test may change."""
    return shutil.copytree(model_folder(MINILM["model"]), tmp_path / "copy")


def test_the_embedded_model_is_what_sentence_transformers_gives_and_finds_what_is_meant(minilm):
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(model_folder(MINILM["model"])), device="cpu")
    texts = ["one short text", WHALES, REVENUE]
    expected = [vector[None] for vector in reference.encode(texts, normalize_embeddings=True)]
    assert_same(minilm.encode_pages(texts), expected)
    assert_same(minilm.encode_queries(texts), expected)
    pages = [WHALES * 3, REVENUE * 3, "A recipe for bread with yeast and flour."]
    query = minilm.encode_queries(QUESTION)[0]
    scores = [float((query @ page.T).sum(0).max()) for page in minilm.encode_pages(pages)]
    assert scores[1] > 0.4 > max(scores[0], scores[2])
    assert (minilm.dim, minilm.content) == (384, PageContent.TEXT)
    # a blank page has no vector, and no page no answer
    shapes = [vectors.shape for vectors in minilm.encode_pages([" \n", "", "x"])]
    assert shapes == [(0, 384), (0, 384), (1, 384)]
    assert minilm.encode_pages([]) == minilm.encode_queries([]) == []


def test_the_end_of_a_long_page_is_found_and_passages_are_as_long_as_asked(minilm):
    """The model reads 256 tokens, and the text after them has a vector, too."""
    (vectors,) = minilm.encode_pages([WHALES * 50 + REVENUE * 10])
    assert len(vectors) > 2
    scores = (vectors @ minilm.encode_queries(QUESTION)[0][0]).tolist()
    assert scores.index(max(scores)) == len(scores) - 1
    assert max(scores) > scores[0] + 0.15
    short = open_encoder({**MINILM, "page_tokens": 66})
    assert [len(model.encode_pages(["word " * 400])[0]) for model in (minilm, short)] == [2, 12]
    assert short.fingerprint != minilm.fingerprint


def test_prompts_are_put_around_texts(minilm):
    prompted = open_encoder({**MINILM, "query_prompt": "query: {}", "page_prompt": "passage: {} ."})
    assert_same(prompted.encode_queries(["income"]), minilm.encode_queries(["query: income"]))
    assert_same(prompted.encode_pages(["income"]), minilm.encode_pages(["passage: income ."]))
    assert prompted.fingerprint != minilm.fingerprint


def test_pooling_is_what_the_checkpoint_says(minilm_copy):
    """sentence-transformers would take the mean."""
    (minilm_copy / "modules.json").unlink()
    with pytest.raises(UserError, match=r"modules\.json"):
        open_encoder({**MINILM, "model": str(minilm_copy)})


def test_code_of_a_checkpoint_is_not_run(minilm_copy, tmp_path):
    modules = json.loads((minilm_copy / "modules.json").read_text())
    modules[0]["type"] = "custom_st.Transformer"
    (minilm_copy / "modules.json").write_text(json.dumps(modules))
    (minilm_copy / "custom_st.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    with pytest.raises(UserError, match=r"custom_st\.Transformer"):
        open_encoder({**MINILM, "model": str(minilm_copy)})
    assert not (tmp_path / "ran").exists()


def test_a_causal_model_is_made_to_read_both_ways(tmp_path):
    """gte-Qwen2 attends both ways with and without padding, which take different paths in the
    library.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import Qwen2Config, Qwen2Model

    from docagent_rl.lab.tiny.model import initialise
    from docagent_rl.lab.tiny.tokenizer import build_tokenizer

    tokenizer = build_tokenizer()
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    model = Qwen2Model(Qwen2Config(vocab_size=len(tokenizer), **sizes, **heads)).eval()
    initialise(model, 0)
    model.save_pretrained(tmp_path / "plain")
    tokenizer.save_pretrained(tmp_path / "plain")
    modules = [Transformer(str(tmp_path / "plain")), Pooling(64, pooling_mode="cls")]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "whole"))
    spec = {"family": "sentence_transformer", "model": str(tmp_path / "whole"), "page_tokens": 64}
    texts = [
        "the revenue rose",
        "the revenue fell",
        "the whales of the southern ocean and their food",
    ]
    # the first token sees what follows it in one direction only when it looks there
    one, two, _ = open_encoder(spec, batch_size=3).encode_pages(texts)
    np.testing.assert_allclose(one, two, atol=1e-6)
    both = open_encoder({**spec, "bidirectional": True}, batch_size=3)
    together = both.encode_pages(texts)
    assert np.abs(together[0] - together[1]).max() > 1e-3
    assert_same([both.encode_pages([text])[0] for text in texts], together)

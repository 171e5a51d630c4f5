"""Scores of tiny models, compared with those of the libraries used as in the model cards."""

import numpy as np
import pytest
import torch

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.encoders.local import prepare_image
from docagent_rl.retrieval.rerank.local import CrossEncoderReranker, open_reranker
from docagent_rl.retrieval.rerank.spec import named_reranker
from tests.tiny_rerankers import TinyReranker, tiny_reranker
from tests.tiny_retrievers import TinyRetriever, build_retriever

QUERIES = ["where does the cat sit?", "<|image_pad|> [SEP] cat", "a dog barks"]


@pytest.fixture
def pairs(store: DocumentStore):
    return [(query, store.page(ref)) for query in QUERIES for ref in store.pages()]


@pytest.fixture
def opened(tiny_folder):
    def made(kind, *, batch_size, **changes):
        return open_reranker(
            tiny_reranker(kind, tiny_folder(kind), **changes), batch_size=batch_size
        )

    return made


def test_a_cross_encoder_scores_as_sentence_transformers_does(opened, pairs, tiny_folder):
    from sentence_transformers import CrossEncoder

    library = CrossEncoder(str(tiny_folder(TinyReranker.CROSS_ENCODER)), device="cpu")
    texts = [(query.replace("[SEP]", "[ SEP]"), page.text()) for query, page in pairs]
    expected = library.predict(texts, activation_fn=torch.nn.Identity())
    found = opened(TinyReranker.CROSS_ENCODER, batch_size=4).score(pairs)
    assert np.std(found) > 1e-3
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_yes_against_no_as_on_the_card_of_qwen3_reranker(opened, pairs, tiny_folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tiny_folder(TinyReranker.TEXT)
    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModelForCausalLM.from_pretrained(folder),
    )
    spec = named_reranker("qwen3-reranker-0.6b")
    prefix, turn, asked = spec.query_prompt.partition("user\n")
    shown, _, suffix = spec.page_prompt.partition("{}")
    yes, no = (tokenizer.convert_tokens_to_ids(word) for word in ("yes", "no"))
    for (query, page), score in zip(
        pairs, opened(TinyReranker.TEXT, batch_size=3).score(pairs), strict=True
    ):
        middle = asked.replace("{}", query.replace("<|image", "< |image")) + shown + page.text()
        parts = [prefix + turn, middle, suffix]
        ids = [
            each
            for part in parts
            for each in tokenizer(part, add_special_tokens=False)["input_ids"]
        ]
        logits = model(torch.tensor([ids])).logits[0, -1]
        probability = torch.log_softmax(logits[[no, yes]], dim=0)[1].exp()
        assert torch.sigmoid(torch.tensor(score)) == pytest.approx(probability.item(), abs=1e-5)


def test_pages_are_looked_at_as_by_the_script_of_qwen3_vl_reranker(opened, store, tiny_folder):
    """The reference takes one pair at a time: the last hidden state times the difference of two
    rows of the head.
    """
    from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

    folder = tiny_folder(TinyReranker.IMAGE)
    processor = AutoProcessor.from_pretrained(folder)
    whole = Qwen3VLForConditionalGeneration.from_pretrained(folder)
    vocabulary = processor.tokenizer.get_vocab()
    head = whole.lm_head.weight[vocabulary["yes"]] - whole.lm_head.weight[vocabulary["no"]]
    spec = tiny_reranker(TinyReranker.IMAGE, folder)
    images = processor.image_processor
    images.size = {"shortest_edge": spec.min_pixels, "longest_edge": spec.max_pixels}
    pages = [store.page(PageRef("animals", number)) for number in (1, 2)]
    pairs = [
        (query, page) for query in ("cat", "where does the dog bark, and why?") for page in pages
    ]
    found = opened(TinyReranker.IMAGE, batch_size=4).score(pairs)
    for (query, page), score in zip(pairs, found, strict=True):
        text = spec.query_prompt.replace("{}", query) + spec.page_prompt
        batch = processor(text=[text], images=[prepare_image(page.image())], return_tensors="pt")
        with torch.no_grad():
            hidden = whole.model(**batch).last_hidden_state[0, -1]
        assert score == pytest.approx((hidden @ head).item(), abs=1e-5)
    assert len(set(found)) == 4


def test_the_best_passage_of_a_long_page_counts_and_neighbours_change_nothing(
    make_store, tmp_path, opened
):
    words = " ".join(f"word{number} cat" for number in range(8))
    long = make_store(tmp_path, {"long": [words, "cat"], "short": ["birds sing"]})
    reranker = opened(TinyReranker.CROSS_ENCODER, batch_size=3, page_tokens=16)
    pages = [long.page(ref) for ref in long.pages()]
    together = reranker.score([("cat", page) for page in pages])
    alone = [reranker.score([("cat", page)])[0] for page in pages]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    passages = reranker._pairs.passages(pages[0])
    assert len(passages) > 3
    best = max(float(reranker._text_scores([("cat", each)])) for each in passages)
    assert together[0] == pytest.approx(best, abs=1e-5)


def test_what_is_no_reranker_is_refused(tmp_path, tiny_folder):
    encoder = build_retriever(TinyRetriever.DENSE_TEXT, tmp_path / "encoder")
    with pytest.raises(UserError, match="encoder"):
        CrossEncoderReranker(tiny_reranker(TinyReranker.TEXT, encoder))
    text = tiny_folder(TinyReranker.TEXT)
    with pytest.raises(UserError, match="not a cross-encoder"):
        open_reranker(tiny_reranker(TinyReranker.CROSS_ENCODER, text))
    with pytest.raises(UserError, match="qwen3"):
        open_reranker(tiny_reranker(TinyReranker.IMAGE, text))
    with pytest.raises(UserError, match=r"device of rerank\.model"):
        open_reranker(tiny_reranker(TinyReranker.TEXT, text), device="cuda")
    with pytest.raises(UserError, match="query_tokens"):
        open_reranker(
            tiny_reranker(
                TinyReranker.CROSS_ENCODER,
                tiny_folder(TinyReranker.CROSS_ENCODER),
                query_tokens=124,
            )
        )

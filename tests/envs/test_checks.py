import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.checks import checked_gold, pages_outside, played_pages, references
from docagent_rl.envs.token_budget import cut_middle, cut_to_chars, cut_to_tokens, estimated_tokens


def test_gold_pages_may_lie_in_several_documents_or_be_none_when_allowed(store, make_sample):
    gold = checked_gold(make_sample(), store, allow_empty=False)
    assert gold == {PageRef("K", 3), PageRef("K", 4), PageRef("M", 1)}
    assert (
        checked_gold(make_sample(extra={}, evidence_pages=()), store, allow_empty=True)
        == frozenset()
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doc_id": "Z"}, "'q1'.*'Z'"),
        ({"extra": {"page_ids": ["Z#1"]}}, "'q1'.*'Z'"),
        ({"extra": {"page_ids": ["K#6"]}}, "'q1'.* 6 .*'K'.* 5 "),
        ({"extra": {}, "evidence_pages": ()}, "'q1'.*allow_empty_gold"),
        ({"extra": {"page_ids": ["K"]}}, "page_ids"),
    ],
)
def test_questions_that_cannot_be_played(store, make_sample, changes, message):
    with pytest.raises(UserError, match=message):
        checked_gold(make_sample(**changes), store, allow_empty=False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"answers": ("blue", "azure")}, ("blue", "azure")),
        ({"answers": ("a", "b"), "answer_format": "List"}, ("a; b",)),
        ({"answers": ("a", "b"), "answer_format": "list/extractive"}, ("a; b",)),
        ({"answers": (), "answerable": False}, ("Not answerable",)),
    ],
)
def test_references(make_sample, changes, expected):
    assert references(make_sample(**changes)) == expected


def test_no_reference(make_sample):
    with pytest.raises(UserError, match="'q1'"):
        references(make_sample(answers=(), answerable=None))


texts = st.text(alphabet="ab1. \u6587\n", max_size=200)
counts = st.sampled_from([estimated_tokens, len, lambda text: len(text.encode())])


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("in 2021, 3.5%", 1 + 4 + 1 + 4), ("words a b", 2 + 1 + 1), ("a\u6587 \u6587", 1 + 2 + 2)],
)
def test_the_estimate(text, tokens):
    assert estimated_tokens(text) == tokens


@given(texts, st.integers(0, 60), counts)
def test_cutting_to_tokens(text, limit, count):
    cut = cut_to_tokens(text, limit, count)
    assert count(cut) <= limit
    assert (cut == text) == (count(text) <= limit)
    assert text.startswith(cut.rstrip("\u2026"))
    if cut != text and count is len and limit > 1:
        # nothing is cut without need; only white space may be lost besides
        assert len(text[: limit - 1].rstrip()) + 1 == len(cut)


@given(texts, st.integers(0, 80), counts)
def test_cutting_the_middle(text, limit, count):
    cut = cut_middle(text, limit, count)
    assert count(cut) <= limit
    if cut != text and cut:
        head, tail = cut.split(" \u2026 ")[0], cut.rsplit(" \u2026 ", 1)[1]
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) == len(tail)


@given(texts, st.integers(1, 60))
def test_cutting_to_characters(text, limit):
    cut = cut_to_chars(text, limit)
    assert len(cut) <= limit
    assert cut == text or cut.endswith("\u2026")


def test_long_texts_are_cut():
    """The search counts few pieces: one word at a time would take minutes."""
    assert 0 < estimated_tokens(cut_to_tokens("word 12 " * 20_000, 500, estimated_tokens)) <= 500


def test_where_counts_do_not_rise_evenly_the_same_sizes_are_tried_as_ever():
    """Recorded trajectories contain texts that were cut this way: 4, 6, 7 and 8 of eight
    letters.
    """
    fits = [0, 1, 2, 3, 4, 6, 7]

    def count(text):
        return 0 if text.endswith("\u2026") and len(text) - 1 in fits else 9

    assert cut_to_tokens("abcdefgh", 1, count) == "abcdefg\u2026"


def test_the_last_page_of_a_document_may_be_gold(store, make_sample):
    gold = checked_gold(make_sample(extra={"page_ids": ["K#5", "Q#3"]}), store, allow_empty=False)
    assert gold == {PageRef("K", 5), PageRef("Q", 3)}


@pytest.mark.parametrize(
    ("window", "pages"),
    [(None, range(1, 6)), ([1, 5], range(1, 6)), ([2, 2], range(2, 3)), ([3, 5], range(3, 6))],
)
def test_a_question_is_played_on_its_window(store, make_sample, window, pages):
    extra = {} if window is None else {"window": window}
    document, found = played_pages(make_sample(extra=extra), store)
    assert (document.doc_id, found) == ("K", pages)


@pytest.mark.parametrize(
    "window", [[0, 3], [3, 2], [2, 6], [1], [1, 2, 3], [1.0, 2], [True, 2], "12", [1, 2.0]]
)
def test_a_window_that_is_none_is_an_error(store, make_sample, window):
    with pytest.raises(UserError, match=r"'q1': extra\.window .* pages 1 to 5 of 'K'"):
        played_pages(make_sample(extra={"window": window}), store)
    with pytest.raises(UserError, match="'Z'"):
        played_pages(make_sample(doc_id="Z", extra={"window": window}), store)


def test_evidence_outside_the_window_is_no_gold_but_has_to_exist(store, make_sample):
    windowed = {"extra": {"window": [4, 5]}, "evidence_pages": (3, 4)}
    assert checked_gold(make_sample(**windowed), store, allow_empty=False) == {PageRef("K", 4)}
    none = make_sample(extra={"window": [5, 5]}, evidence_pages=(3, 4))
    assert checked_gold(none, store, allow_empty=True) == frozenset()
    with pytest.raises(UserError, match=r"'q1' .* in its window, pages 5 to 5"):
        checked_gold(none, store, allow_empty=False)
    beyond = make_sample(extra={"window": [4, 5]}, evidence_pages=(4, 9))
    with pytest.raises(UserError, match=r"'q1'.* 9 "):
        checked_gold(beyond, store, allow_empty=False)


def test_pages_outside_the_window_are_all_others_of_the_document(store, make_sample):
    sample = make_sample(extra={"window": [2, 4]})
    assert pages_outside(sample, store) == {PageRef("K", 1), PageRef("K", 5)}
    assert pages_outside(make_sample(extra={}), store) == frozenset()


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [("abcdef", 6, "abcdef"), ("abcdef", 5, "abcd\u2026"), ("ab   f", 5, "ab\u2026")],
)
def test_a_cut_is_marked_within_its_limit(text, limit, cut):
    assert cut_to_chars(text, limit) == cut
    assert cut_to_tokens(text, limit, len) == cut


@pytest.mark.parametrize(
    ("limit", "cut"),
    [(10, "0123456789"), (9, "012 \u2026 789"), (8, "01 \u2026 89"), (5, "0 \u2026 9"), (4, "")],
)
def test_the_middle_is_cut_as_little_as_may_be(limit, cut):
    assert cut_middle("0123456789", limit, len) == cut


def test_both_ends_may_go_on_to_the_middle():
    assert cut_middle("0123456789abcdefghij", 19, len) == "01234567 \u2026 cdefghij"

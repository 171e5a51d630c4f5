import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.retrieval.metrics import recall_at, reciprocal_rank
from docagent_rl.documents import PageRef

pages = st.integers(1, 12).map(lambda n: PageRef("K", n))


def refs(*numbers: int) -> list[PageRef]:
    return [PageRef("K", number) for number in numbers]


@given(st.lists(pages, unique=True), st.sets(pages, min_size=1), st.integers(1, 12))
def test_metrics_equal_their_slow_definitions(ranked, evidence, k):
    ranks = [ranked.index(page) + 1 for page in evidence if page in ranked]
    assert recall_at(ranked, evidence, k) == sum(rank <= k for rank in ranks) / len(evidence)
    assert reciprocal_rank(ranked, evidence) == (1 / min(ranks) if ranks else 0.0)


def test_a_page_of_the_same_number_elsewhere_is_no_evidence_and_nothing_has_no_recall():
    assert recall_at([PageRef("M", 1)], refs(1), 1) == 0
    assert reciprocal_rank([PageRef("M", 1)], refs(1)) == 0
    for gold, k in (([], 1), (refs(1), 0)):
        with pytest.raises(ValueError):
            recall_at(refs(1), gold, k)

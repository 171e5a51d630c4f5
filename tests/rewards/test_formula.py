import pytest

from docagent_rl.rewards.formula import Formula, Gate
from docagent_rl.systems import get_system


@pytest.mark.parametrize(
    ("system", "variant", "text"),
    [
        ("vrag_rl", "paper", "0.2 retrieval_ndcg + 0.8 outcome"),
        (
            "vrag_rl",
            "released",
            "0.2 retrieval_ndcg + 0.7 outcome + 0.1 format; 0 unless format > 0",
        ),
        ("mm_doc_r1", "paper", "page_recall + correctness"),
        ("doc_v_star", "paper", "0.6 answer + 0.3 evidence + 0.1 format"),
        (
            "unidoc_rl",
            "released",
            "0.1 search_ndcg + 0.1 select + 0.1 roi + 0.1 format + 0.6 outcome; 0 unless format > "
            "0",
        ),
        (
            "alden",
            "paper",
            "format + search + fetch - 0.5 fetch_repetition - 0.5 fetch_failed + 5 answer; "
            "-1 unless format > -1; summed over the turns; on tokens -query_repetition",
        ),
    ],
)
def test_the_formula_of_a_configuration_stands_in_its_terms(system, variant, text):
    found = get_system(system)
    assert found.formula is not None
    assert str(found.formula(found.config_type.for_variant(variant))) == text


def test_terms_are_summed_where_the_gate_is_open():
    weights = {"search": 0.5, "outcome": 2.0}
    gated = Formula(weights, Gate("format", above=0.5, otherwise=-1.0))
    earned = {"search": 0.5, "outcome": 0.25}
    assert Formula(weights).total(earned) == gated.total(earned | {"format": 1.0}) == 0.75
    assert gated.total(earned | {"format": 0.5}) == gated.total(earned) == -1.0
    assert Formula(weights).total({}) == 0.0
    assert Formula(weights).opens({})

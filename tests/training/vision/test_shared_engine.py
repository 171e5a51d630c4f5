"""verl's engines with rows that share pages, against the same rows with features of their own."""

import pytest

from tests.training.ranks import last_report

MODULE = "tests.training.vision.shared_engine"
FROZEN = (
    "frozen",
    "frozen, row by row",
    "frozen, fused, checkpointing, offload",
    "lora beside the tower",
    "frozen critic",
    "frozen, flash",
)
TRAINED = ("trained", "trained, fused, checkpointing", "lora in the tower", "critic")
PLACES, PAGES = 4, 2
NOTHING, ALL, KNOWN = [0, 0], [PLACES, PAGES], [PLACES, 0]
SAME = 1e-5


def test_ranks_of_which_one_knows_all_features_do_not_wait_forever(tmp_path, warm_python):
    """A rank that skipped the tower, or that gathered its weights more often, would hang."""
    found = last_report(warm_python, "tests.training.vision.sharded_tower", tmp_path, ranks=2)
    assert [rank["counts"] for rank in found] == [
        [[4, 3], [4, 3], [4, 0], [4, 0]],
        [[1, 1], [1, 0], [1, 1], [1, 0]],
    ]
    for rank in found:
        assert max(rank["outputs"]) < SAME
        assert all(rank["sharded"])


@pytest.fixture(scope="module")
def report(tmp_path_factory, warm_python) -> dict:
    return last_report(warm_python, MODULE, tmp_path_factory.mktemp("shared"))


@pytest.mark.slow
@pytest.mark.parametrize("variant", [*FROZEN, *TRAINED])
def test_shared_pages_change_neither_outputs_nor_gradients(report, variant):
    found = report[variant]
    assert found["outputs"] < SAME
    assert found["gradients"] < SAME
    assert found["again"]


@pytest.mark.slow
@pytest.mark.parametrize("variant", FROZEN)
def test_a_frozen_tower_computes_a_page_once_for_all_passes(report, variant):
    assert report[variant]["counts"] == [NOTHING, ALL, KNOWN, KNOWN]
    assert report[variant]["tower"] == 0 or "lora" in variant


@pytest.mark.slow
@pytest.mark.parametrize("variant", TRAINED)
def test_a_trained_tower_computes_a_page_once_for_each_micro_batch(report, variant):
    assert report[variant]["counts"] == [NOTHING, ALL, ALL, ALL]
    assert report[variant]["tower"] > 0


@pytest.mark.slow
def test_a_reference_computes_a_page_once(report):
    found = report["reference"]
    assert (found["first counts"], found["second counts"]) == (ALL, KNOWN)
    assert max(found["first"], found["second"]) < SAME


@pytest.mark.slow
def test_a_checkpoint_with_another_tower_is_seen(report):
    assert report["loading"]["same"] < SAME
    assert report["loading"]["moved"] > 1e-2


@pytest.mark.slow
def test_two_ranks_in_verls_engines(tmp_path, warm_python):
    found = last_report(warm_python, MODULE, tmp_path, ranks=2)
    for rank, forgotten in enumerate(([4, 2], [4, 4])):
        for name, result in found["ranks"][rank].items():
            assert max(result["outputs"]) < SAME, name
            assert result.get("gradients", 0) < SAME, name
            computed = [number for _, number in result["counts"]]
            if name == "trained":
                assert computed == [4] * 4
            else:
                known = [forgotten[1], 0, 0, 0]
                known[1 + rank] = forgotten[1]
                assert computed == known, name
    for name, result in found["ulysses"].items():
        assert max(result["outputs"], result["gradients"]) < SAME, name

"""Actor, critic and reference in verl's engines, with rows that share micro-batches, on the CPU."""

import pytest

from tests.training.ranks import last_report

pytestmark = pytest.mark.slow

MODULE = "tests.training.packed_engine"
FLASH = [f"flash, {name}" for name in ("whole batch", "checkpointing", "fused")]
FLAT = [*FLASH, "flash, determined"]


@pytest.fixture(scope="module")
def report(tmp_path_factory, warm_python) -> dict:
    return last_report(warm_python, MODULE, tmp_path_factory.mktemp("packed"))


@pytest.mark.parametrize("variant", ["packed", "fused", *FLAT, "reference"])
def test_numbers_and_gradients_are_those_of_rows_one_by_one(report, variant):
    found = report[variant]
    assert max(found.values()) < 1e-5, found
    assert min(report["spread"].values()) > 0.1


def test_what_was_compared(report):
    said, critics = {"log_probs", "entropy", "token-mean"}, {"values", "critic"}
    assert report["fused"].keys() == said | {"seq-mean-token-mean", "seq-mean-token-sum"}
    assert report["packed"].keys() == report["fused"].keys() | critics
    assert report["flash, whole batch"].keys() == said | critics
    wanted = {"rows": 4, "packed": 2, "fused": 2, FLASH[0]: 1}
    assert report["micro_batches"].items() >= wanted.items()


def test_rows_as_workers_fetch_them_change_no_bit(report):
    assert report["compact"].keys() == {"critic", "rows", "packed", "fused", *FLAT, "reference"}
    assert set(report["compact"].values()) == {0.0}


def test_a_critics_loss_is_the_mean_over_tokens_with_a_target(report):
    every, some, noise = report["targets"]["losses"]
    assert [every, some] == pytest.approx(report["targets"]["expected"], rel=1e-5)
    assert every != pytest.approx(some, rel=1e-3)
    assert noise == pytest.approx(some, rel=1e-6)
    assert report["targets"]["error"] < 1e-6


def test_two_ranks_that_share_each_row_give_the_numbers_of_padded_rows(tmp_path, warm_python):
    """With Ulysses, each rank's loss counts half of what two data-parallel ranks count."""
    found = last_report(warm_python, MODULE, tmp_path, ranks=2)
    assert found["values"] < 1e-5
    assert found["scale"] == pytest.approx(0.5, rel=1e-5)
    assert found["error"] < 1e-5

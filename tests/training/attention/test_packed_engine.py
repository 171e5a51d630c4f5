"""Actor, critic and reference in verl's engines: packed rows through flash attention, on the processor."""

from __future__ import annotations

import pytest

from tests.training.ranks import last_report

pytestmark = pytest.mark.slow

ACTORS = [
    "whole batch",
    "two rows a pack",
    "one row a pack",
    "checkpointing",
    "fused kernels",
    "determined",
]


@pytest.fixture(scope="module")
def report(tmp_path_factory, warm_python) -> dict:
    return last_report(
        warm_python, "tests.training.attention.packed_engine", tmp_path_factory.mktemp("packed")
    )


@pytest.mark.parametrize("variant", [*ACTORS, "critic"])
def test_packed_rows_give_the_numbers_and_gradients_of_padded_rows(report, variant):
    found = report[variant]
    assert found["names"]
    assert found["values"] < 1e-5
    assert found["error"] < 1e-5
    assert found["norm"] > 0.1
    assert min(report["spread"].values()) > 0.1


def test_offloaded_reference_gives_the_numbers_of_the_actor(report):
    assert report["reference"]["values"] < 1e-5


def test_two_ranks_that_share_each_row_give_the_numbers_of_padded_rows(tmp_path, warm_python):
    """Ulysses; each rank's loss counts half of what two data-parallel ranks count."""
    found = last_report(warm_python, "tests.training.attention.ulysses_engine", tmp_path, ranks=2)
    assert found["values"] < 1e-5 < found["spread"]
    assert found["scale"] == pytest.approx(0.5, rel=1e-5)
    assert found["error"] < 1e-5

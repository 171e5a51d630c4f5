from __future__ import annotations

import pytest

from tests.training.ranks import last_report

pytestmark = pytest.mark.slow

HEADS = ["rows tied", "rows untied", "packed tied", "packed untied"]
"""Micro-batches of two rows, or filled with rows and with verl's fused kernels."""


@pytest.fixture(scope="module")
def report(tmp_path_factory, warm_python) -> dict:
    """verl's engines, FSDP2 over two processes: an update at the reference and one away from it."""
    folder = tmp_path_factory.mktemp("engine")
    return last_report(warm_python, "tests.training.losses.engine_run", folder, ranks=2)


@pytest.mark.parametrize("head", HEADS)
def test_nothing_is_pulled_at_the_reference(report, head):
    found = report[head]["before"]
    for name in ("kl_observation", "kl_visual", "kl_generated", "observation_drift_l2", "kl_clamped"):
        assert found[name] == pytest.approx(0, abs=1e-6), name
    assert found["observation_drift_cosine"] == pytest.approx(1)


@pytest.mark.parametrize("head", HEADS)
def test_value_and_gradients_equal_dense_ones(report, head):
    found = report[head]
    assert found["kl"] > 0.1
    assert found["after"]["kl_observation"] == pytest.approx(found["kl"], rel=1e-4)
    assert found["after"]["kl_visual"] == pytest.approx(found["kl"], rel=1e-4)
    assert found["after"]["loss"] == pytest.approx(found["loss"], rel=1e-4)
    assert 0.1 < found["after"]["observation_drift_l2"] < 2
    assert found["errors"].keys() == found["largest"].keys()
    assert ("lm_head.weight" in found["errors"]) == head.endswith("untied")
    for name, error in found["errors"].items():
        assert error < 1e-4 * found["largest"][name] + 1e-6, name


@pytest.mark.parametrize("head", HEADS)
def test_states_of_the_reference_are_let_go(report, head):
    for step in ("before", "after"):
        # eight rows over two workers
        assert report[head][step]["rows_kept"] == 4
        assert report[head][step]["rows_left"] == 0

from __future__ import annotations

import pytest

from tests.training.ranks import last_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(tmp_path_factory, warm_python) -> dict:
    """verl's engines, FSDP2 over two processes: an update at the reference and one away from it."""
    folder = tmp_path_factory.mktemp("engine")
    return last_report(warm_python, "tests.training.losses.engine_run", folder, ranks=2)


# micro-batches of two rows, or filled with rows and with verl's fused kernels
@pytest.fixture(params=["rows tied", "rows untied", "packed tied", "packed untied"])
def found(report, request) -> dict:
    assert report[request.param]["head"] == request.param.endswith("untied")
    return report[request.param]


def test_nothing_is_pulled_at_the_reference(found):
    for name in ("kl_observation", "kl_visual", "kl_generated", "observation_drift_l2", "kl_clamped"):
        assert found["before"][name] == pytest.approx(0, abs=1e-6), name
    assert found["before"]["observation_drift_cosine"] == pytest.approx(1)


def test_value_and_gradients_equal_dense_ones(found):
    assert found["kl"] > 0.1
    after = found["after"]
    assert after["kl_observation"] == after["kl_visual"] == pytest.approx(found["kl"], rel=1e-4)
    assert after["loss"] == pytest.approx(found["loss"], rel=1e-4)
    assert 0.1 < after["observation_drift_l2"] < 2
    assert found["error"] < 1e-5


def test_states_of_the_reference_are_let_go(found):
    for step in ("before", "after"):
        # eight rows over two workers
        assert (found[step]["rows_kept"], found[step]["rows_left"]) == (4, 0)

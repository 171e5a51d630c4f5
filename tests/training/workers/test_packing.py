from __future__ import annotations

import pytest

from tests.training.ranks import last_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(tmp_path_factory, warm_python) -> dict:
    folder = tmp_path_factory.mktemp("packing")
    return last_report(warm_python, "tests.training.workers.packing_engine", folder)


def test_rows_share_micro_batches(report):
    assert report["micro_batches"]["rows"] == 4
    assert report["micro_batches"]["packed"] == report["micro_batches"]["fused"] == 2


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "critic"])
def test_the_update_does_not_depend_on_how_rows_are_packed(report, mode):
    assert report["gradients"][mode]["packed"] < 1e-5


@pytest.mark.parametrize("field", ["log_probs", "entropy", "values"])
def test_what_is_inferred_is_in_the_order_of_the_rows(report, field):
    assert report["inferred"][field]["packed"] < 1e-5


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
def test_fused_kernels_update_as_logits_do(report, mode):
    assert report["gradients"][mode]["fused"] < 1e-5
    assert report["inferred"]["log_probs"]["fused"] < 1e-5

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cpu_only")]
TOLERANCE = {"abs": 1e-3}


def test_upstream_still_cannot_load_a_second_time(vllm_report):
    # verl's loader meets a parameter that vLLM's CPU layer has repacked away
    assert "into parameter (torch.Size([0]))" in vllm_report["original_errors"]["receiver"]


def test_engine_samples_from_the_new_weights(vllm_report):
    assert vllm_report["before"] == pytest.approx(vllm_report["first"], **TOLERANCE)
    assert vllm_report["patched_errors"] == {"sender": None, "receiver": None}
    assert vllm_report["after"] == pytest.approx(vllm_report["second"], **TOLERANCE)
    assert vllm_report["first"] != pytest.approx(vllm_report["second"], abs=0.5)


def test_second_update_works_too(vllm_report):
    assert vllm_report["again_errors"] == {"sender": None, "receiver": None}
    assert vllm_report["again"] == pytest.approx(vllm_report["first"], **TOLERANCE)


def test_a_head_that_shares_the_embedding_is_new_as_well(tied_report):
    assert tied_report["before"] == pytest.approx(tied_report["first"], **TOLERANCE)
    assert tied_report["after"] == pytest.approx(tied_report["second"], **TOLERANCE)
    assert tied_report["first"] != pytest.approx(tied_report["second"], abs=0.5)
    assert tied_report["again"] == pytest.approx(tied_report["first"], **TOLERANCE)


def test_adapters_are_refused_with_what_to_do_and_without_a_hang(vllm_report):
    assert vllm_report["lora_errors"]["sender"] is None
    assert "lora.merge=True" in vllm_report["lora_errors"]["receiver"]


def test_trainer_hears_of_a_worker_that_cannot_take_the_weights(vllm_report):
    assert "AssertionError" in vllm_report["original_errors"]["sender"]

"""LoRA in verl's engine: the server gets what was trained, and the reference does not change."""

import pytest

from tests.patches.lora_engine import RESUMED, VARIANTS
from tests.training.ranks import last_report

pytestmark = pytest.mark.slow  # verl's engine on two ranks, in processes of its own
MERGED = ("all", "language")


@pytest.fixture(scope="module")
def report(tmp_path_factory, warm_python) -> dict:
    """Return the report of a tiny Qwen2.5-VL, sharded over two ranks."""
    folder = tmp_path_factory.mktemp("lora")
    return last_report(warm_python, "tests.patches.lora_engine", folder, ranks=2)


def test_adapters_begin_as_nothing_and_learn(report):
    for name in VARIANTS:
        assert report[name]["before"] < (0.1 if name == "half" else 1e-5)
        assert report[name]["moved"] > 0.1
    assert (report["all"]["trained"], report["language"]["trained"]) == ([52, 24], [28, 0])


def test_reference_is_the_base_without_its_adapter(report):
    assert [report[name]["without"] for name in VARIANTS] == [0.0] * len(VARIANTS)


def test_merged_weights_are_the_policy_that_is_trained(report):
    for name in MERGED:
        assert report[name]["merged"]["apart"] < 2e-5
        assert report[name]["merged"]["types"] == ["torch.float32"]


def test_upstream_still_sends_bfloat16_and_leaves_the_projector_out(report):
    """If this test fails, `lora_merged_weights` is no longer needed."""
    assert report["language"]["upstream"]["types"] == ["torch.bfloat16"]
    assert report["language"]["upstream"]["apart"] > 1e-3
    assert report["all"]["upstream"]["apart"] > 0.1


def test_adapters_are_float32_over_a_base_in_bfloat16(report):
    assert report["half"]["types"] == ["torch.float32"]
    assert report["half"]["merged"]["types"] == ["torch.bfloat16"]
    assert report["upstream"]["types"] == [
        "torch.bfloat16"
    ]  # else `lora_float32_adapters` is not needed


def test_adapter_is_sent_apart_from_its_base(report):
    assert report["adapter"]["sent"] == [28, 0]
    assert report["adapter"]["base"] < 1e-6


def test_a_checkpoint_goes_on_as_if_nothing_had_been(report):
    for name in RESUMED:
        assert report[name]["loaded"] == report[name]["resumed"] == 0.0

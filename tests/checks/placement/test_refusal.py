"""A refusal says what does not fit, and what would."""

from dataclasses import replace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.budget import GIB
from docagent_rl.checks.placement.demand import Pool
from docagent_rl.checks.placement.refusal import require_plan
from tests.checks.placement.demands import demand, needs


def refused(wanted, gpus: int, nodes: int = 1) -> list[str]:
    with pytest.raises(UserError) as caught:
        require_plan(wanted, Pool(nodes, gpus, 75 * GIB))
    return [line.strip() for line in str(caught.value).splitlines()]


def test_a_plan_that_fits_is_returned():
    assert require_plan(needs(demand("judge", 15)), Pool(1, 5, 75 * GIB)).trainer.gpus == 4


def test_a_trainer_that_is_too_large_is_named_with_the_gpus_that_hold_it():
    first, trainer, fits, adapters = refused(needs(), 2)
    assert first == "recipe does not fit on 2 GPUs, where 75.0 GiB can be filled on each:"
    assert trainer == "the trainer needs 90.0 GiB on each of 2 GPUs (GPU, update)"
    assert fits == "it fits on 4 GPUs of this memory"
    assert "+lora=" in adapters
    assert not any("+lora=" in line for line in refused(replace(needs(), adapts=True), 2))


def test_a_service_that_no_gpus_of_a_node_hold_is_named_and_may_be_elsewhere():
    extractor = replace(demand("extractor", 400), keys=("docagent.roles.extractor.base_url",))
    lines = refused(needs(extractor), 4)
    # 100 + 5 + a quarter
    assert "extractor (hub/extractor) needs 105.2 GiB on each of 4 GPUs" in lines
    # eight for the extractor, and a node for the trainer
    assert "it fits on 16 GPUs on 2 nodes of this memory" in lines
    address = "docagent.roles.extractor.base_url=http://HOST:8001/v1"
    assert f"it fits here if extractor is served elsewhere: {address}" in lines


def test_parts_that_fit_alone_and_not_together_are_listed():
    judge = replace(demand("judge", 45), variable="DOCAGENT_JUDGE_URL")
    lines = refused(needs(judge, demand("reader", 15)), 4)
    assert lines[1] == (
        "the trainer takes 4 GPUs, and the others do not hold all of judge (hub/judge), reader "
        "(hub/reader)"
    )
    assert lines[2] == "it fits on 5 GPUs of this memory"


def test_nothing_is_promised_where_nothing_helps():
    lines = refused(needs(demand("judge", 5000), demand("other", 5000)), 8)
    assert not any(line.startswith("it fits") for line in lines)

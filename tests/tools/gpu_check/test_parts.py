"""Parts of checks: costs, switches of recipes, runs that are late."""

from typing import Any

import pandas as pd
import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.model_sizes import known_sizes
from docagent_rl.checks.rates import RateName
from docagent_rl.checks.recipe_check import RecipeFinding, composed_recipe, with_problem
from tools.gpu_check.check import Machine
from tools.gpu_check.meter import Cost, Meter
from tools.gpu_check.parts.recipe import KINDS, SHORT, SMALL, overrides
from tools.gpu_check.parts.serving import ON_GPU, layers_that_fit, measured_rates
from tools.gpu_check.parts.widths import SMALL as SMALL_SIZES
from tools.gpu_check.parts.widths import Scale, extrapolated, measured_rate


def test_layers_are_extrapolated_along_a_line_and_the_vision_tower_is_not():
    few, many = Cost(1000.0, 1.0, 9000.0), Cost(1400.0, 1.5, 9001.0)
    found = extrapolated(few, many, (4, 8), 28)
    assert found == Cost(1400 + 5 * 400, 1.5 + 5 * 0.5, 9001.0)
    assert str(found) == "8.8 GiB, 4.00 s"
    with pytest.raises(ValueError, match="both"):
        extrapolated(few, None, (4, 8), 28)


def test_a_mark_parts_the_peaks():
    meter, sizes = Meter("cpu"), (300, 60)

    def call() -> None:
        for number, mib in enumerate(sizes):
            if number:
                meter.mark()
            bytearray(b"x" * (mib << 20))

    found = meter.measure(call)
    assert found.peak_mib > 200
    assert 30 < found.later_mib < 200


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.title)
def test_a_gpu_computes_as_the_recipe_says(kind):
    def flat(config: Any) -> dict[str, Any]:
        plain = OmegaConf.to_container(config, resolve=False)
        return pd.json_normalize(plain).iloc[0].to_dict()

    machine = Machine("a GPU", 80.0, vllm=True)
    own, plain = (
        flat(composed_recipe(kind.recipe, list(more)))
        for more in (overrides(kind, machine), [each for each in kind.more if each.startswith("+")])
    )
    changed = {name for name in own | plain if str(own.get(name)) != str(plain.get(name))}
    named = {each.partition("=")[0] for each in (*SMALL, *SHORT, *kind.more)}
    assert {name for name in changed - named if not name.startswith("docagent.retriever.")} == set()
    config = composed_recipe(kind.recipe, list(overrides(kind, machine)))
    assert with_problem(RecipeFinding(kind.recipe), config).problem is None
    assert own["actor_rollout_ref.model.use_fused_kernels"]
    assert own["actor_rollout_ref.actor.use_dynamic_bsz"]
    rollout = {"enforce_eager": False, "free_cache_engine": True, "enable_prefix_caching": True}
    assert {name: own[f"actor_rollout_ref.rollout.{name}"] for name in rollout} == rollout


def test_a_servers_speed_by_hand():
    model = known_sizes("Qwen/Qwen2.5-7B-Instruct")
    embeddings = 152_064 * 3584
    layers = model.parameters - 2 * embeddings
    found = measured_rates(model, ON_GPU, one=2.0, many=3.5)
    tokens = 16 * 2048
    # two operations per parameter of the layers, and attention to half of the prompt
    operations = tokens * (2 * layers + 2 * 28 * 3584 * 2048)
    assert found[RateName.PREFILL] == pytest.approx(operations / 2.0)
    # 128 steps, each of which reads layers, head, and keys and values up to the middle
    keys = 2 * 2 * 28 * 512 * (2048 + 64)
    step = 2 * (layers + embeddings) + 16 * keys
    assert found[RateName.DECODING] == pytest.approx(128 * step / 1.5)
    assert measured_rates(model, ON_GPU, one=2.0, many=2.0).keys() == {RateName.PREFILL}


def test_a_server_has_as_many_layers_as_leave_room_for_a_cache():
    assert [layers_that_fit(gib) for gib in (8, 22, 80, 140)] == [3, 18, 28, 28]


def test_a_slower_pass_has_fewer_operations_per_second():
    scale = Scale(SMALL_SIZES, (1, 2), 8, (120,), (4, 4))
    fast, slow = (measured_rate(scale, 120, Cost(1.0, seconds)) for seconds in (0.5, 2.0))
    assert fast[RateName.TRAINING] == pytest.approx(4 * slow[RateName.TRAINING])
    assert measured_rate(scale, 120, Cost(1.0, -0.1)) == {}

"""Parts of checks: costs, switches of recipes, runs that are late."""

from typing import Any

import pandas as pd
import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.recipe_check import RecipeFinding, composed_recipe, with_problem
from tools.gpu_check.check import Machine
from tools.gpu_check.meter import Cost, Meter
from tools.gpu_check.parts.recipe import KINDS, SHORT, SMALL, overrides
from tools.gpu_check.parts.widths import extrapolated


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

"""Check the losses of policy and critic against formulas in float64.

The gradients with respect to the model's outputs are compared, too. verl's workers, with this
package's extensions, train on rows of which some are masked, empty or rejected. Each mean over
tokens, rows or trajectories is tried, with different divergences, over several micro-batches and
mini-batches. The reference reads only the model's outputs (`tools.gpu_check.loss_reference`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.training.workers.critic import CriticWorker
from tools.gpu_check.check import Machine, Result, expect, passed
from tools.gpu_check.loss_batches import MASKS, add_numbers, make_batch
from tools.gpu_check.loss_reference import MODES, TRAJECTORY, TURN, Objective
from tools.gpu_check.loss_update import POLICY_WORKER, Layout, differences
from tools.gpu_check.workers import POLICY, VALUE, Settings, make_worker, response_outputs

ERROR = 1e-4
"""Largest difference in float32, relative to the largest number."""
WORDS = (20, 120)
IMAGE = 10
"""The range of token ids that are drawn, and the id that stands for an image."""
LAYOUTS = (Layout(), Layout(micro=None), Layout(mini=4, micro=1))
DIVERGENCES = (("low_var_kl", "k3"), ("k1", "k1"), ("k2", "k2"), ("k3+", "k3+"), ("abs", "k3"))
"""Divergences on trained tokens and on observations, for each of verl's means."""


def run(machine: Machine, folder: Path) -> Result:
    """Run the check that the module describes."""
    path = build_tiny_model(folder / "qwen3", family="qwen3")
    goals = [
        Objective(mode, kl_type=trained, observation=0.3, observation_type=observed)
        for mode, (trained, observed) in zip(MODES, DIVERGENCES, strict=True)
    ]
    by_trajectory = Objective(TRAJECTORY, kl_type="k3")
    by_turn = Objective(TURN, kl_type="k2", observation=0.3)
    policy = make_worker(path, Settings(lr=0.0), POLICY, POLICY_WORKER)
    errors = _compare("policy", policy, [*goals, by_trajectory, by_turn])
    errors |= _compare("critic", make_worker(path, Settings(lr=0.0), VALUE, CriticWorker), goals)
    worst = max(errors, key=lambda name: errors[name])
    return passed(
        f"{len(errors)} losses and gradients, largest difference {errors[worst]:.1g} ({worst})",
        **errors,
    )


def _compare(kind: str, worker: Any, goals: list[Objective]) -> dict[str, float]:
    errors = {}
    for masks in ("all trained", "masked, empty, rejected"):
        rows = MASKS[masks]
        data = make_batch(rows, WORDS, IMAGE)
        add_numbers(data, response_outputs(worker, data))
        for number, goal in enumerate(goals):
            layout = LAYOUTS[number % len(LAYOUTS)]
            for name, error in differences(worker, data, rows, goal, layout, IMAGE).items():
                case = f"{kind}, {goal.mode}, {masks}: {name}"
                expect(
                    error < ERROR,
                    f"{case} differs by {error:.2g} of the largest number, more than {ERROR:g}",
                )
                errors[case] = error
    return errors

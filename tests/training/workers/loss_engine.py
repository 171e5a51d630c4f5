"""Program: updates by verl's FSDP2 engines of a tiny text model, of which not everything is
trained, compared with float64.

On one rank or two. Prints the largest differences of each case; `LOSS_CASES=all` runs every layout
of each.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, distributed
from transformers import AutoModelForCausalLM
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss

from docagent_rl.training.workers.critic import CriticWorker
from docagent_rl.training.workers.extensions import composed_class
from docagent_rl.training.workers.policy import PolicyWorker
from docagent_rl.training.workers.trajectory_loss import TrajectoryCountWorker
from tests.training import engines
from tools.gpu_check.loss_batches import (
    EMPTY,
    FIELDS,
    MASKS,
    PLAIN,
    SpelledRow,
    add_numbers,
    make_batch,
    wholes,
)
from tools.gpu_check.loss_reference import (
    MODES,
    TRAJECTORY,
    TURN,
    Objective,
    ReferenceRow,
    policy_loss,
)
from tools.gpu_check.loss_update import POLICY_WORKER, Layout, differences, policy_settings

WORDS = (10, engines.TOKENIZER)
LAYOUTS = {
    "micro-batches of rows": Layout(),
    "micro-batches of tokens": Layout(micro=None),
    "two mini-batches": Layout(mini=4, micro=1),
}
KL_TYPES = dict(
    zip(
        (*MODES, TRAJECTORY, TURN),
        ("low_var_kl", "k1", "k2", "k3+", "abs", "k3", "mse"),
        strict=True,
    )
)
"""Each mean with a divergence of its own."""
WITHOUT = composed_class([PolicyWorker, TrajectoryCountWorker], TrainingWorker)
"""A policy's worker that divides as verl does."""
LEFT_OUT = EMPTY[3]
HALF = [*PLAIN[:4], *[LEFT_OUT] * 4]
"""Rows with which one of two ranks, or the last of two mini-batches, has nothing to train."""


def step(made: Any, rows: list[SpelledRow], output: str) -> TensorDict:
    """Return a whole step, with values near the worker's own outputs for its rows."""
    data = make_batch(rows, WORDS, engines.IMAGE)
    add_numbers(data, engines.outputs(made, data, output))
    return data


def cases(modes: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield means, masks and layouts: all combinations, or one layout for each mean and mask."""
    whole = os.environ.get("LOSS_CASES") == "all"
    for number, masks in enumerate(MASKS):
        for place, mode in enumerate(modes):
            for index, layout in enumerate(LAYOUTS):
                if whole or index == (number + place) % len(LAYOUTS):
                    yield masks, mode, layout


def objective(mode: str) -> Objective:
    """Return the objective of a mode; the mean by trajectory does not go together with an
    observation KL.
    """
    observation = 0.0 if mode == TRAJECTORY else 0.3
    return Objective(mode, kl_type=KL_TYPES[mode], observation=observation, images=mode == MODES[0])


def compared(made: Any, kind: str, output: str, modes: list[str]) -> dict[str, dict[str, float]]:
    steps = {masks: step(made, rows, output) for masks, rows in MASKS.items()}
    found = {}
    for masks, mode, layout in cases(modes):
        given = steps[masks], MASKS[masks], objective(mode), LAYOUTS[layout], engines.IMAGE
        found[f"{kind}|{mode}|{masks}|{layout}"] = differences(made, *given)
    found[f"{kind}|{MODES[-1]}|half|{next(iter(LAYOUTS))}"] = differences(
        made, step(made, HALF, output), HALF, objective(MODES[-1]), Layout(), engines.IMAGE
    )
    return found


def by_model(
    path: Path, data: TensorDict, rows: list[SpelledRow], goal: Objective
) -> dict[str, Tensor]:
    """Return the gradients by parameter in float64, from dense logits, row by row."""
    model = AutoModelForCausalLM.from_pretrained(
        path, attn_implementation="sdpa", dtype=torch.float64
    )
    reference = []
    for number, (row, whole) in enumerate(zip(rows, wholes(rows), strict=True)):
        ids = data["input_ids"].unbind()[number]
        log_probs = model(input_ids=ids[None]).logits[0, row.prompt - 1 : -1].log_softmax(-1)
        numbers = {name: data[name].unbind()[number].double() for name in FIELDS}
        numbers["log_probs"] = log_probs.gather(1, ids[row.prompt :, None])[:, 0]
        numbers["entropy"] = -(log_probs.exp() * log_probs).sum(-1)
        reference.append(ReferenceRow(row.kinds, numbers, whole))
    policy_loss(reference, goal)["loss"].backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def parameters(made: Any, path: Path) -> dict[str, float]:
    """Return how far gradients of the parameters are from the reference's, for each mean."""
    rows = MASKS["masked, empty, rejected"]
    data, found = step(made, rows, "log_probs"), {}
    for mode in MODES:
        goal = Objective(mode)
        made.set_loss_fn(partial(ppo_loss, config=policy_settings(goal)))
        gradients, _ = engines.update(made, own_part(data), len(rows), calculate_entropy=True)
        expected = by_model(path, data, rows, goal)
        found[mode] = engines.apart(gradients, expected)
    return found


def of_verl(path: Path) -> dict[str, float]:
    """Return how far verl's own worker is off, by what is left out, for a mean over rows and one
    over tokens.
    """
    made = engines.worker(WITHOUT, path)
    found = {}
    for masks, mode in (
        ("masked", "seq-mean-token-mean"),
        ("rejected", "token-mean"),
        ("masked", "token-mean"),
    ):
        data = step(made, MASKS[masks], "log_probs")
        off = differences(made, data, MASKS[masks], Objective(mode), Layout(), engines.IMAGE)
        found[f"{mode}, {masks}"] = off["gradient by log_probs"]
    return found


def own_part(data: TensorDict) -> TensorDict:
    return tu.chunk_tensordict(data, distributed.get_world_size())[distributed.get_rank()]


def nothing(path: Path) -> dict[str, Any]:
    """Report how weights change under an optimizer with momentum if a mini-batch has nothing to
    train.
    """
    made = engines.worker(POLICY_WORKER, path, lr=0.01)
    rows = [LEFT_OUT] * len(PLAIN)
    empty, half = step(made, rows, "log_probs"), step(made, HALF, "log_probs")
    made.set_loss_fn(partial(ppo_loss, config=policy_settings(Objective("seq-mean-token-mean"))))

    def trained(data: TensorDict, mini: int) -> tuple[float, dict[str, list[float]]]:
        before = weights(made)
        _, metrics = engines.update(made, own_part(data), mini, calculate_entropy=True)
        return max(
            float((new - old).abs().max()) for new, old in zip(weights(made), before, strict=True)
        ), metrics

    first, _ = trained(half, 8)
    moved, metrics = trained(empty, 8)
    both, of_both = trained(half, 4)
    finite = all(torch.isfinite(torch.tensor(value)).all() for value in of_both.values())
    return {
        "first": first,
        "moved": moved,
        "metrics": metrics,
        "half": both,
        "finite": finite,
        "losses": of_both["loss"],
    }


def weights(made: Any) -> list[Tensor]:
    return [engines.whole(each).detach().clone() for each in made.engine.module.parameters()]


def report(folder: Path) -> dict[str, Any]:
    path = engines.once(engines.text_model, folder / "text")
    policy, critic = engines.worker(POLICY_WORKER, path), engines.worker(CriticWorker, path)
    differing = compared(policy, "policy", "log_probs", [*MODES, TRAJECTORY, TURN])
    differing |= compared(critic, "critic", "values", list(MODES))
    return {
        "differences": differing,
        "parameters": parameters(policy, path),
        "nothing": nothing(path),
        "verl": of_verl(path),
    }


if __name__ == "__main__":
    engines.program(report)

"""Check that a policy that is saved and loaded into a new worker takes the same next steps.

The optimizer's state is compared number by number, too, since the next losses hardly depend on it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from tools.gpu_check.batches import ROWS, make_batch
from tools.gpu_check.check import Machine, Result, expect, passed
from tools.gpu_check.models import SMALL, configuration, write_checkpoint
from tools.gpu_check.parts.models import settings_of_recipes
from tools.gpu_check.workers import make_worker, optimizer_states, update

FIRST = 3
"""The first step after loading."""
NEXT_LOSS = 1e-5
LATER_LOSS = 0.05
NORM = 0.02
"""Allowed relative differences. The next loss depends only on a forward pass. Later losses and
norms may differ more: sums in a GPU's backward pass have no fixed order, and Adam's first steps
amplify small gradients.
"""


def run(machine: Machine, folder: Path) -> Result:
    """Run the check that the module describes."""
    config = configuration(SMALL)
    path = write_checkpoint(folder / "model", config)
    batch = make_batch(ROWS, config)
    settings = replace(settings_of_recipes(machine), lr=1e-3)
    first = make_worker(path, settings)
    before = [update(first, batch)[:2] for _ in range(2)]
    first.save_checkpoint(str(folder / "saved"), global_step=2)
    saved = optimizer_states(first)
    again = make_worker(path, settings)
    again.load_checkpoint(str(folder / "saved"))
    loaded = optimizer_states(again)
    expect(
        set(loaded) == set(saved),
        f"optimizer: {len(loaded)} tensors after loading, not {len(saved)}",
    )
    others = [name for name in saved if not torch.equal(saved[name], loaded[name])]
    expect(bool(saved) and not others, f"optimizer: different numbers after loading: {others[:3]}")
    expected = [update(first, batch)[:2] for _ in range(2)]
    found = [update(again, batch)[:2] for _ in range(2)]
    losses = [loss for loss, _ in (*before, *expected)]
    expect(len(set(losses)) == len(losses), f"training changed nothing: {losses}")
    for step, ours, theirs in zip((FIRST, FIRST + 1), found, expected, strict=True):
        loss, norm = ours
        wanted, wanted_norm = theirs
        share = NEXT_LOSS if step == FIRST else LATER_LOSS
        expect(abs(loss - wanted) <= share * abs(wanted), f"step {step}: loss {loss}, not {wanted}")
        same = step > FIRST or abs(norm - wanted_norm) <= NORM * wanted_norm
        expect(same, f"step {step}: norm of the gradient {norm}, not {wanted_norm}")
    text = (
        f"steps 3 and 4 after loading: loss {found[0][0]:.6f} and {found[1][0]:.6f}, as without "
        "the interruption"
    )
    return passed(text, losses=losses, resumed=[loss for loss, _ in found])

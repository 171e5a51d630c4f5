"""Estimate stages: GPU hours from operations, disk from bytes per page and per parameter.

No run has measured these: shares of the peak are assumed, and each row counts as the longest one.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from docagent_rl.checks.cards import card_memory, usable
from docagent_rl.checks.recipe_list import ROOT
from docagent_rl.lab.papers.machine import Machine
from docagent_rl.lab.papers.manifest import FOLDER, SHARED, UNKNOWN, RetrieverIndex
from docagent_rl.lab.stages.stage import Estimate

TRAINING = 0.3
"""Assumed share of the GPU's peak operations in passes over whole rows."""
SAMPLING = 0.05
"""Assumed share of the GPU's peak operations while tokens are sampled."""
PAGE_BYTES = 237_000
"""Bytes of a page in a store (docs/retrieval/scale.md)."""
GIB = 2**30
SIZES = "sizes.yaml"
"""The file with the numbers of `recipes budget` by recipe, which `tools.paper_pages` writes."""


@cache
def sizes(recipe: str) -> Mapping[str, Any]:
    """Return a recipe's numbers from `recipes budget`.

    The keys are `parameters`, `tokens` (of the longest trajectory), `trajectories` (of a question),
    `epochs`, `passes` (operations per parameter and token of all passes over a row), `disk_gib`,
    and `update_gib` by number of GPUs.
    """
    text = (ROOT / FOLDER / SHARED / SIZES).read_text(encoding="utf-8")
    return yaml.safe_load(text)[recipe]


def training(recipe: str, questions: int | str, machine: Machine, gpus: int) -> Estimate:
    """Estimate a run of RL on some of a machine's GPUs."""
    size = sizes(recipe)
    each = size["tokens"] * size["parameters"] * (2 / SAMPLING + size["passes"] / TRAINING)
    formula = (
        f"questions x {size['epochs']} epochs x {size['trajectories']} trajectories x "
        f"{size['tokens']:,} tokens x {size['parameters'] / 1e9:.1f}e9 parameters x "
        f"(2 / {SAMPLING} + {size['passes']} / {TRAINING}) / {machine.peak:.3g} per second; disk: "
        f"`recipes budget`; {memory(recipe, machine, gpus)}"
    )
    if questions == UNKNOWN:
        return Estimate(None, size["disk_gib"], formula)
    count = int(questions) * size["epochs"] * size["trajectories"]
    return Estimate(_hours(count * each, machine), size["disk_gib"], f"{questions:,} {formula}")


def memory(recipe: str, machine: Machine, gpus: int) -> str:
    """Return a sentence that says how much memory of a GPU an update takes, and whether it fits."""
    needed = sizes(recipe)["update_gib"].get(gpus)
    if needed is None:
        return "memory: see `recipes budget`"
    room = usable(card_memory(machine.card)) / GIB
    text = f"an update takes {needed:,.1f} of {room:,.1f} GiB of each of {gpus} GPUs"
    return text if needed <= room else f"DOES NOT FIT: {text}"


def fine_tuning(recipe: str, rows: int | str, epochs: int, length: int, m: Machine) -> Estimate:
    """Estimate a run of supervised fine-tuning of the model that a recipe trains afterwards."""
    parameters = sizes(recipe)["parameters"]
    formula = (
        f"rows x {epochs} epochs x {length:,} tokens x {parameters / 1e9:.1f}e9 parameters x 8 / "
        f"{TRAINING} / {m.peak:.3g} per second; disk: 2 checkpoints of 16 bytes per parameter"
    )
    disk = 2 * 16 * parameters / GIB
    if rows == UNKNOWN:
        return Estimate(None, disk, formula)
    hours = _hours(int(rows) * epochs * length * parameters * 8 / TRAINING, m)
    return Estimate(hours, disk, f"{rows:,} {formula}")


def evaluating(recipe: str, questions: int | None, contexts: int, machine: Machine) -> Estimate:
    """Estimate an evaluation with greedy decoding of the model that a recipe trains.

    Args:
        recipe: its name.
        questions: how many questions there are, if that is known.
        contexts: most contexts of a question, over its trajectories; each counts as long as the
            recipe's longest trajectory.
        machine: the machine.
    """
    size = sizes(recipe)
    formula = (
        f"questions x {contexts} contexts x {size['tokens']:,} tokens x "
        f"{size['parameters'] / 1e9:.1f}e9 parameters x 2 / {SAMPLING} / {machine.peak:.3g} per "
        "second"
    )
    if questions is None:
        return Estimate(None, None, formula)
    each = size["tokens"] * size["parameters"] * 2 / SAMPLING
    return Estimate(_hours(questions * contexts * each, machine), 1, f"{questions:,} {formula}")


def indexing(index: RetrieverIndex, pages: int | None, machine: Machine) -> Estimate:
    """Estimate the building of an index."""
    formula = f"pages x {index.bytes:,} bytes"
    if index.parameters:
        formula += (
            f"; x {index.tokens:,} tokens x {index.parameters / 1e9:.1f}e9 parameters x 2 / "
            f"{TRAINING} / {machine.peak:.3g} per second"
        )
    if pages is None:
        return Estimate(None if index.parameters else 0, None, formula)
    work = pages * index.tokens * index.parameters * 2 / TRAINING
    return Estimate(_hours(work, machine), pages * index.bytes / GIB, f"{pages:,} {formula}")


def storing(pages: int | str) -> Estimate:
    """Estimate the storing of a download's documents."""
    formula = f"pages x {PAGE_BYTES:,} bytes (on CPUs: 12 ms per page, with OCR 1.4 to 4.3 s)"
    if pages == UNKNOWN:
        return Estimate(0, None, formula)
    return Estimate(0, int(pages) * PAGE_BYTES / GIB, f"{pages:,} {formula}")


def weights(parameters: float) -> Estimate:
    """Estimate the download of a model."""
    return Estimate(0, 2 * parameters / GIB, "2 bytes per parameter")


def _hours(work: float, machine: Machine) -> float:
    return work / machine.peak / 3600

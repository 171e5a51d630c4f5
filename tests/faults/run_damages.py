"""Runs with a file of every kind, as the trainer and the commands write them, and damage to one
file.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

import numpy as np
import yaml

from docagent_rl.base.seals import Seal
from docagent_rl.checkpoints.manifest import CheckpointCheck, sealing, write_tracker
from docagent_rl.commands.collect import collect_command
from docagent_rl.commands.eval import eval_command, probe_command
from docagent_rl.commands.rescore import rescore_command
from docagent_rl.rollout.credit import CreditRow, write_credit
from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.samples.sample import write_jsonl
from docagent_rl.training.trainer.archive import (
    supersede_steps,
    trajectory_file,
    write_metrics,
    write_trajectories,
)
from tests.checkpoints.saved import save
from tests.commands.conftest import called, on_cpu
from tests.lab.rescoring.stage import stored_run

RECIPE = "vrag_rl_qwen2_5_vl_7b"
ORACLE = ("--agent", "oracle")


def train(world, run: Path, questions: int) -> Path:
    """Make a run of two steps with validations and checkpoints, which was killed in a third step
    and resumed.
    """
    stored_run(world, run, "vrag_rl", questions=questions)
    config = yaml.safe_load((run / "hydra" / "config.yaml").read_text())
    seal = Seal(run)
    seal.write(run / "hydra" / "overrides.yaml", f"- trainer.experiment_name={run.name}\n")
    seal.write(
        run / "hydra" / "hydra.yaml", yaml.safe_dump({"job": {"name": run.name, "n": questions}})
    )
    assert config["docagent"]["run_dir"] == str(run)
    for step in (1, 2, 3):
        played = list(read_trajectories(trajectory_file(run, min(step, 2))))
        write_trajectories(run, step, played)
        write_trajectories(run, step, played[: step + questions], validation=True)
        numbers = {"critic/score/mean": step / questions, "docagent/turns": 2.0 + step}
        write_metrics(run, step, numbers)
        write_metrics(run, step, {"val-core/x/acc/mean@1": 0.1 * step * questions}, validation=True)
        rows = [
            CreditRow(each.uid, each.number, 0, {"advantages": np.full(4, step, np.float32)})
            for each in played
        ]
        write_credit(run, step, "grpo", rows)
        with sealing(run, folder := run / "checkpoints" / f"global_step_{step}"):
            save(folder.parent, step, size=100 * questions, check=CheckpointCheck.FULL)
    with sealing(run, folder):
        shutil.rmtree(folder)
        write_tracker(folder.parent, 2)
    supersede_steps(run, 2)
    return run


@dataclass(frozen=True)
class Made:
    """Two folders of each kind, with different questions: damage may come from the second."""

    root: Path
    kinds: tuple[str, ...] = ("trained", "eval", "collected", "probe", "rescored")


def make(world, root: Path) -> Made:
    """Make the folders with the commands themselves."""
    for number in (2, 3):
        folder = root / str(number)
        folder.mkdir()
        write_jsonl(world.samples[:number], folder / "questions.jsonl")
        data = ("--data", folder / "questions.jsonl", "--out")
        train(world, folder / "trained", number)
        called(eval_command, RECIPE, *data, folder / "trained" / "inner", *ORACLE, *on_cpu(world))
        called(eval_command, RECIPE, *data, folder / "eval", *ORACLE, *on_cpu(world))
        called(
            collect_command,
            RECIPE,
            *data,
            folder / "collected",
            "--player",
            "oracle",
            *on_cpu(world),
        )
        probe = ("--condition", "blank", *ORACLE)
        called(probe_command, RECIPE, *data, folder / "probe", *probe, *on_cpu(world))
        rescore = ("--out", folder / "rescored", "--", "docagent.judge.kind=exact")
        called(rescore_command, folder / "trained", *rescore)
    return Made(root)


class Kind(StrEnum):
    """A kind of damage to a file."""

    DELETED = "deleted"
    EMPTIED = "emptied"
    EDITED = "edited, and still of its form"
    CUT = "cut off"
    LINES_LOST = "lines lost at its end"
    FLIPPED = "a bit flipped"
    APPENDED = "bytes behind it"
    DOUBLED = "its content twice"
    ZEROS = "zeros"
    RENAMED = "renamed"
    COPIED = "copied beside it as another step's"
    SWAPPED = "swapped with a file of its kind"
    OF_ANOTHER_RUN = "put in the place of another run's"
    A_FOLDER = "a folder in its place"


_NUMBER = re.compile(rb"[1-9]")


def spoil(path: Path, others: list[Path], elsewhere: Path, kind: Kind, dice: Random) -> bool:
    """Damage a file; return whether that was possible and changed anything.

    `others` are of its kind in the run; `elsewhere` is the one of another run, there or not.
    """
    data = path.read_bytes()
    changes: dict[Kind, Callable[[], bytes]] = {
        Kind.EMPTIED: lambda: b"",
        Kind.EDITED: lambda: _edited(data, dice),
        Kind.CUT: lambda: data[: dice.randrange(len(data))],
        Kind.LINES_LOST: lambda: b"".join(
            data.splitlines(keepends=True)[: -dice.choice((1, 1, 2))]
        ),
        Kind.FLIPPED: lambda: _flipped(data, dice),
        Kind.APPENDED: lambda: data + dice.choice((b"\n", b"0", b"{}\n", bytes(16))),
        Kind.DOUBLED: lambda: data * 2,
        Kind.ZEROS: lambda: bytes(len(data)),
    }
    if kind in changes:
        spoilt = changes[kind]()
        path.write_bytes(spoilt)
        return spoilt != data
    match kind:
        case Kind.DELETED:
            path.unlink()
        case Kind.A_FOLDER:
            path.unlink()
            path.mkdir()
        case Kind.RENAMED:
            path.rename(path.with_name(f"{path.name}.bak"))
        case Kind.COPIED:
            digits = re.search(r"\d+", path.stem)
            if digits is None:
                return False  # nobody reads it by another name
            name = path.stem.replace(digits[0], f"{int(digits[0]) + 7}")
            shutil.copy(path, path.with_name(name + path.suffix))
        case Kind.SWAPPED:
            other = dice.choice(others) if others else None
            if other is None or other.read_bytes() == data:
                return False
            path.write_bytes(other.read_bytes())
            other.write_bytes(data)
        case Kind.OF_ANOTHER_RUN:
            if not elsewhere.is_file() or elsewhere.read_bytes() == data:
                return False
            shutil.copy(elsewhere, path)
    return True


def _edited(data: bytes, dice: Random) -> bytes:
    """Replace a digit by another, so that the file stays a valid text or table of numbers."""
    places = [found.start() for found in _NUMBER.finditer(data)]
    if not places:
        return data
    place = dice.choice(places)
    digit = dice.choice([each for each in b"123456789" if each != data[place]])
    return data[:place] + bytes([digit]) + data[place + 1 :]


def _flipped(data: bytes, dice: Random) -> bytes:
    changed = bytearray(data)
    changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(changed)


_KEPT_ASIDE = ("replies", "stores", "verdicts")
"""Folders whose content can be made again: replies of models, stores of a probe."""


def files(folder: Path) -> Iterator[Path]:
    """Return the files of a run that matter, in order."""
    for path in sorted(folder.rglob("[!.]*")):
        inside = path.relative_to(folder).parts
        if path.is_file() and path.stat().st_size and not set(inside) & set(_KEPT_ASIDE):
            yield path


def kind_of(folder: Path, path: Path) -> str:
    """Return the kind of a file: its path without numbers."""
    return re.sub(r"\d+", "N", path.relative_to(folder).as_posix())

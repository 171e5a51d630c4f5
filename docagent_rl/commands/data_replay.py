"""`docagent-rl data replay`: turn released dialogues into trajectories for fine-tuning."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import shown
from docagent_rl.commands.asking import resumable
from docagent_rl.commands.options import OutFolder, Overrides, Recipe, argument, option
from docagent_rl.lab.collect.rules import BoxFrame, Rejection

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.collect.dialogues import Dialogues

_AT_A_TIME = 8
_REJECTED = "rejected.jsonl"
_NO_RETRIEVER = "docagent_rl.lab.eval.baselines.systems:Unasked"


def replay_command(
    recipe: Recipe,
    src: Path = argument(
        ..., "Released dialogues: a file (.json, .jsonl, .parquet), or the folder of a download."
    ),
    overrides: Overrides = None,
    *,
    out: OutFolder,
    boxes: BoxFrame = option(
        BoxFrame.NORM1000, "Unit of the boxes in the dialogues; see docs/sft.md."
    ),
) -> None:
    """Replay UniDoc-RL's released dialogues in the real environment; keep those that play.

    Every turn must be executed and show the images that the dialogue shows; boxes are rewritten for
    the recipe's images. OUT becomes a run for `data sft`, and gets rejected.jsonl, with the reason
    for each dialogue that does not play. The store must contain the documents; neither an index nor
    a judge is needed. The same command resumes an interrupted replay.

    Example: docagent-rl data replay unidoc_rl_qwen2_5_vl_7b UniDoc-RL/unidoc_sft.json --out runs/d1
    -- docagent.workspace=$W
    """
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.agents.runner import RunSettings
    from docagent_rl.lab.collect.dialogues import read_dialogues
    from docagent_rl.lab.collect.replay import ReplayPlayer
    from docagent_rl.lab.eval.choices import Agent
    from docagent_rl.lab.eval.evaluation import play_run, questions_digest
    from docagent_rl.lab.eval.play_config import check_play, play_config
    from docagent_rl.rollout.env_resources import EnvResources

    dialogues = read_dialogues(src)
    samples = [dialogue.sample for dialogue in dialogues.found.values()]
    run = play_config(recipe, Agent.SYSTEM, overrides or ())
    _without_services(run)
    parsed = check_play(run, samples)
    resources = EnvResources(parsed, running=False)
    player = ReplayPlayer(resources, dialogues.found, dialogues.digest(), boxes)
    folder = RunFolder(out)
    manifest = {
        "kind": "replay",
        "recipe": recipe,
        "player": dict(player.identity),
        "questions": {"count": len(samples), "sha256": questions_digest(samples)},
    }
    settings = RunSettings(concurrency=_AT_A_TIME)
    with resumable():
        asyncio.run(play_run(manifest, player, resources.system.name, folder, samples, settings))
    _report(folder, dialogues, boxes)


def _without_services(run: DictConfig) -> None:
    """Replace the retriever and the judge of answers, which a replay does not ask."""
    from omegaconf import OmegaConf, open_dict

    with open_dict(run):
        run.docagent.retriever = OmegaConf.create({"kind": _NO_RETRIEVER})
        run.docagent.judge = OmegaConf.create({"kind": "exact"})


def _report(folder: RunFolder, dialogues: Dialogues, boxes: BoxFrame) -> None:
    """Print how many dialogues play, and how many do not, by reason."""
    rejected = {name: str(error) for name, error in dialogues.rejected.items()}
    played = 0
    for trajectory in folder.trajectories():
        if trajectory.masked:
            rejected[trajectory.uid] = trajectory.error or trajectory.end
        else:
            played += 1
    folder.seal.write(folder.path / _REJECTED, _lines(rejected))
    folder.seal.compact()
    Console().print(_table(rejected, played))
    if not played:
        raise UserError(
            f"{folder.path}: no dialogue plays; {folder.path / _REJECTED} says why for each"
        )
    outside = sum(text.startswith(f"{Rejection.OUTSIDE.value}: ") for text in rejected.values())
    if outside and boxes is BoxFrame.DISPLAYED:
        Console(stderr=True).print(
            f"{outside} dialogues have boxes beyond the page in pixels: they may be thousandths "
            "(--boxes norm1000)"
        )


def _table(rejected: Mapping[str, str], played: int) -> Table:
    rows: dict[str, list[str]] = {}
    for name, text in rejected.items():
        reason, _, detail = text.partition(": ")
        rows.setdefault(reason[:120], []).append(f"{name} ({detail})" if detail else name)
    total = played + len(rejected)
    table = Table("rejected because", title=f"{played} of {total} dialogues play")
    table.add_column("dialogues", justify="right")
    table.add_column("first")
    for reason, places in sorted(rows.items()):
        table.add_row(shown(reason), str(len(places)), shown(places[0][:200]))
    return table


def _lines(rejected: Mapping[str, str]) -> Iterator[bytes]:
    for name, text in sorted(rejected.items()):
        yield json.dumps({"row": name, "reason": text}, ensure_ascii=False).encode() + b"\n"

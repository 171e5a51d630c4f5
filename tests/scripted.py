"""Sessions of a system's script in a demo workspace, recorded as a run records them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

from transformers import AutoProcessor, AutoTokenizer

from docagent_rl.checks.recipe_check import composed
from docagent_rl.envs.script import QuestionStatistics, ScriptContext
from docagent_rl.lab.sft.scripted import ScriptedSession, play_scripted
from docagent_rl.records.parquet import read_parquet
from docagent_rl.records.record import Record
from docagent_rl.rollout.resources import SessionResources
from docagent_rl.rollout.session import Limits
from docagent_rl.rollout.trajectory import Trajectory
from trial import Setting


def play_scripts(recipe: str, workspace: Path, count: int, seed: int = 0) -> list[ScriptedSession]:
    """Play questions of the demo's training file with the script of the recipe's system."""
    setting = Setting.of(composed(recipe, ["+profile=cpu", f"docagent.workspace={workspace}"]))
    model = workspace / "models" / f"tiny_{setting.config.system}"
    tokenizer = AutoTokenizer.from_pretrained(model)
    vision = (model / "processor_config.json").exists()
    processor = AutoProcessor.from_pretrained(model) if vision else None
    resources = SessionResources(setting.config, tokenizer, processor, setting.template)
    records = [record for record in read_parquet(workspace / "data" / "train.parquet") if record.answers]
    short = [r for r in records if resources.services.store.document(r.doc_id).num_pages <= 40]
    return play_all(resources, setting.limits, (short * count)[:count], seed)


def play_all(
    resources: SessionResources, limits: Limits, records: Sequence[Record], seed: int = 0
) -> list[ScriptedSession]:
    """Play each question with the script of the system."""
    return asyncio.run(_play(resources, limits, records, random.Random(seed)))


async def _play(
    resources: SessionResources, limits: Limits, chosen: Sequence[Record], rng: random.Random
) -> list[ScriptedSession]:
    system, config = resources.system, resources.env_config
    script, statistics = system.script(config), QuestionStatistics.of(chosen)
    return [
        await play_scripted(
            record,
            Lines(
                script,
                ScriptContext(
                    rng,
                    record,
                    resources.services.store.document(record.doc_id).num_pages,
                    system.max_turns(config),
                    statistics,
                ),
            ),
            env=resources.environment(validate=False),
            system=system.name,
            codec=resources.codec,
            encoder=resources.encoder,
            limits=limits,
            session=number,
        )
        for number, record in enumerate(chosen)
    ]


class Lines:
    """A script as `play_scripted` takes it."""

    def __init__(self, script, context: ScriptContext) -> None:
        self.script, self.context = script, context

    def __call__(self, trajectory: Trajectory) -> str:
        if trajectory.turns:
            self.context.turn = len(trajectory.turns) + 1
            self.context.info = trajectory.turns[-1].info
        return self.script.line(self.context).text


def write_sessions(sessions: Sequence[ScriptedSession], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{session.trajectory.to_json()}\n" for session in sessions))
    return path

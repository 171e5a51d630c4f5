"""A small task of the learning study and everything that is needed to play it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docagent_rl.config import DocAgentConfig
from docagent_rl.records.parquet import read_parquet
from docagent_rl.rollout.resources import SessionResources
from docagent_rl.rollout.session import Limits
from docagent_rl.sft.scripted import ScriptedSession, WriteTurn, play_scripted
from learning.oracle import oracle
from learning.task import SYSTEM, Part, TaskPaths, TaskSettings, make_task, task_section

SETTINGS = TaskSettings(sft=2, train=1, dev=1, held_out=1, pages=2)
LIMITS = Limits(prompt=512, response=512, turn=64, min_turn=8)


@dataclass
class SmallTask:
    """The task in a folder, and the resources of sessions around a processor."""

    root: Path
    processor: Any
    paths: TaskPaths = field(init=False)
    resources: SessionResources = field(init=False)

    def __post_init__(self) -> None:
        self.paths = make_task(self.root, SETTINGS)
        section = task_section(self.paths)
        config = DocAgentConfig.parse(section)
        self.resources = SessionResources(config, self.processor.tokenizer, self.processor)

    def play(self, write: WriteTurn = oracle, *, limits: Limits = LIMITS, number: int = 0) -> ScriptedSession:
        """One question of the oracle's part."""
        sample = read_parquet(self.paths.data(Part.SFT))[number]
        env, codec, encoder = (
            self.resources.environment(validate=False),
            self.resources.codec,
            self.resources.encoder,
        )
        played = play_scripted(
            sample, write, env=env, system=SYSTEM, codec=codec, encoder=encoder, limits=limits
        )
        return asyncio.run(played)

"""A small task of the learning study and everything that is needed to play it."""

import asyncio
from pathlib import Path
from typing import Any

from docagent_rl.config import DocAgentConfig
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Limits
from docagent_rl.samples.parquet import read_parquet
from learning.oracle import oracle
from learning.task import SYSTEM, Part, TaskSettings, make_task, task_section
from trial import ScriptedTrajectory, WriteTurn, play_scripted

SETTINGS = TaskSettings(sft=2, train=1, dev=1, held_out=1, pages=2)
LIMITS = Limits(prompt=512, response=512, turn=64, min_turn=8)


class SmallTask:
    """The task in a folder, and the resources of trajectories around a processor."""

    def __init__(self, root: Path, processor: Any) -> None:
        self.root, self.processor = root, processor
        self.paths = make_task(root, SETTINGS)
        config = DocAgentConfig.parse(task_section(self.paths))
        self.resources = TrajectoryResources(config, processor.tokenizer, processor)

    def play(
        self, write: WriteTurn = oracle, *, limits: Limits = LIMITS, number: int = 0
    ) -> ScriptedTrajectory:
        """Play one question of the oracle's part."""
        sample, own = read_parquet(self.paths.data(Part.SFT))[number], self.resources
        parts = {"env": own.environment(validate=False), "codec": own.codec, "encoder": own.encoder}
        return asyncio.run(play_scripted(sample, write, system=SYSTEM, limits=limits, **parts))

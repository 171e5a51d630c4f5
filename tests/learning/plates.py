"""A small task of `docagent_rl.learning` and everything that is needed to play it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docagent_rl.config import DocAgentConfig
from docagent_rl.data.parquet import read_parquet
from docagent_rl.data.scripted import ScriptedSession, WriteTurn, play_scripted
from docagent_rl.learning.oracle import oracle
from docagent_rl.learning.task import Part, TaskPaths, TaskSettings, make_task
from docagent_rl.rollout.session import Limits
from docagent_rl.rollout.workshop import Workshop

SETTINGS = TaskSettings(sft=2, train=1, dev=1, held_out=1, pages=2)
LIMITS = Limits(prompt=512, response=512, turn=64, min_turn=8)
ENV = {
    "max_turns": 3,
    "grammar": {"crop": False},
    "display": {"min_pixels": 12544, "max_pixels": 12544},
    "search": {"scope": "document"},
}


@dataclass
class Plates:
    """The task in a folder, and a workshop around a processor."""

    root: Path
    processor: Any
    paths: TaskPaths = field(init=False)
    shop: Workshop = field(init=False)

    def __post_init__(self) -> None:
        self.paths = make_task(self.root, SETTINGS)
        section = {
            "system": "vrag_rl",
            "workspace": self.root,
            "run_dir": self.root / "run",
            "store": self.paths.store,
            "retriever": {"index": self.paths.index},
            "judge": {"kind": "exact"},
            "env": ENV,
            "prompt": self.paths.prompt,
        }
        self.shop = Workshop(DocAgentConfig.parse(section), self.processor.tokenizer, self.processor)

    def play(self, write: WriteTurn = oracle, *, limits: Limits = LIMITS, number: int = 0) -> ScriptedSession:
        """One question of the oracle's part."""
        sample = read_parquet(self.paths.data(Part.SFT))[number]
        return asyncio.run(
            play_scripted(
                sample,
                write,
                env=self.shop.environment(validate=False),
                system="vrag_rl",
                codec=self.shop.codec,
                encoder=self.shop.encoder,
                limits=limits,
            )
        )

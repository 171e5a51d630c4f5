"""A few documents of a task, and everything that is needed to play them as the recipe says."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from docagent_rl.checks.recipe_check import composed
from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.records.record import Record
from docagent_rl.rollout.resources import SessionResources
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.sft.scripted import WriteTurn, play_scripted
from docagent_rl.tiny.demo import build_index
from docagent_rl.tiny.trial import Setting
from docagent_rl.tiny.workspace import WorkspacePaths
from proof.tasks.base import Part, ProofTask, Sheet


@dataclass
class SmallTask:
    """The first documents of a task in a folder."""

    task: ProofTask
    root: Path
    processor: Any
    documents: int = 2
    sheets: list[Sheet] = field(init=False)
    setting: Setting = field(init=False)
    resources: SessionResources = field(init=False)

    def __post_init__(self) -> None:
        paths = WorkspacePaths(self.root)
        paths.pdfs.mkdir()
        drawn = self.task.sheets(0)
        counts = {Part.SFT: self.documents, Part.HELD_OUT: 1, Part.BLANK: 1}
        self.sheets = [s for part in counts for s in [d for d in drawn if d.part is part][: counts[part]]]
        for sheet in self.sheets:
            (paths.pdfs / f"{sheet.doc_id}.pdf").write_bytes(self.task.pdf(sheet))
        ingest(paths.pdfs, paths.store, settings=RenderSettings(dpi=144), workers=1, strict=True)
        build_index(DocumentStore(paths.store), paths.index, progress=False)
        (self.root / "prompts").mkdir()
        prompt = f"{self.task.system}.yaml"
        shutil.copy(str(files("proof") / "prompts" / prompt), self.root / "prompts" / prompt)
        self.use(())

    def compose(self, overrides: tuple[str, ...]) -> DictConfig:
        """The recipe with other overrides."""
        profiles = ["hydra.searchpath=[pkg://proof]", "+profile=cpu", f"+recipe={self.task.system}"]
        places = [f"docagent.workspace={self.root}", f"docagent.run_dir={self.root}/run"]
        return composed(self.task.recipe, [*profiles, *places, *overrides])

    def use(self, overrides: tuple[str, ...]) -> None:
        """Play by other overrides."""
        self.setting = Setting.of(self.compose(overrides))
        self.resources = SessionResources(
            self.setting.config, self.processor.tokenizer, self.processor, self.setting.template
        )

    def records(self, part: Part) -> list[Record]:
        """The questions of a part."""
        return [record for sheet in self.sheets if sheet.part is part for record in sheet.records()]

    def play(self, record: Record, write: WriteTurn | None = None) -> Trajectory:
        """One question, by the task's player if by no other."""
        played = play_scripted(
            record,
            write or self.task.player(record),
            env=self.resources.environment(validate=False),
            system=self.task.system,
            codec=self.resources.codec,
            encoder=self.resources.encoder,
            limits=self.setting.limits,
        )
        return asyncio.run(played).trajectory

"""A few documents of a task, and everything that is needed to play them as the recipe says."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

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
from proof.tasks.base import Part, ProofTask


class SmallTask:
    """The first documents of a task in a folder; `play` answers a question, by the task's player at least."""

    def __init__(self, task: ProofTask, root: Path, processor: Any, documents: int = 2) -> None:
        paths = WorkspacePaths(root)
        paths.pdfs.mkdir()
        drawn = task.sheets(0)
        counts = {Part.SFT: documents, Part.HELD_OUT: 1, Part.BLANK: 1}
        self.sheets = [s for part in counts for s in [d for d in drawn if d.part is part][: counts[part]]]
        for sheet in self.sheets:
            (paths.pdfs / f"{sheet.doc_id}.pdf").write_bytes(task.pdf(sheet))
        ingest(paths.pdfs, paths.store, settings=RenderSettings(dpi=144), workers=1, strict=True)
        build_index(DocumentStore(paths.store), paths.index, progress=False)
        prompt = root / "prompts" / f"{task.system}.yaml"
        prompt.parent.mkdir()
        shutil.copy(str(files("proof") / "prompts" / prompt.name), prompt)
        profiles = ["hydra.searchpath=[pkg://proof]", "+profile=cpu", f"+recipe={task.system}"]
        places = [f"docagent.workspace={root}", f"docagent.run_dir={root}/run"]
        setting = Setting.of(composed(task.recipe, [*profiles, *places]))
        resources = SessionResources(setting.config, processor.tokenizer, processor, setting.template)

        def play(record: Record, write: WriteTurn | None = None) -> Trajectory:
            played = play_scripted(
                record,
                write or task.player(record),
                env=resources.environment(validate=False),
                system=task.system,
                codec=resources.codec,
                encoder=resources.encoder,
                limits=setting.limits,
            )
            return asyncio.run(played).trajectory

        self.play: Callable[..., Trajectory] = play

    def records(self, part: Part) -> list[Record]:
        """The questions of a part."""
        return [record for sheet in self.sheets if sheet.part is part for record in sheet.records()]

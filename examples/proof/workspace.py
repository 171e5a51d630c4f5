"""Make the workspace of a task: its documents, ingested and indexed, and its questions."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.tiny.demo import build_demo_index, shuffled_samples
from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.samples.parquet import write_parquet
from docagent_rl.samples.sample import Sample
from proof.tasks.base import Part, ProofTask, Sheet

HERE = Path(__file__).parent
DOCUMENT_SEED = 0
"""The seed of the documents, the same for all units, so that they answer the same questions."""
_STAMP = "task.txt"


def make_workspace(task: ProofTask, paths: DemoPaths) -> DemoPaths:
    """Draw, ingest and index all documents, and write questions and prompts.

    Existing files are left alone, except that prompts are written again.

    Raises:
        UserError: the folder holds other documents.
    """
    drawn = task.sheets(DOCUMENT_SEED)
    _copy_prompts(task.system, paths.workspace / "prompts")
    stamp = paths.workspace / _STAMP
    found = digest_of(drawn)
    if stamp.is_file():
        if stamp.read_text(encoding="utf-8").strip() != found:
            raise UserError(
                f"{paths.workspace} holds another task; choose another folder or remove this one"
            )
        return paths
    for sheet in drawn:
        atomic_write(paths.pdfs / f"{sheet.doc_id}.pdf", task.pdf(sheet))
    ingest(paths.pdfs, paths.store, settings=RenderSettings(dpi=144), workers=2, strict=True)
    build_demo_index(DocumentStore(paths.store), paths.index)
    for part in Part:
        write_parquet(questions(drawn, part), paths.data(part))
    atomic_write(stamp, f"{found}\n")
    return paths


def questions(drawn: Sequence[Sheet], part: Part) -> list[Sample]:
    """Return all questions of a part, shuffled."""
    samples = [sample for sheet in drawn if sheet.part is part for sample in sheet.samples()]
    return shuffled_samples(samples, f"proof/{DOCUMENT_SEED}/{part.value}")


def digest_of(drawn: Sequence[Sheet]) -> str:
    """Return 12 hexadecimal digits that identify the documents of a task."""
    return hashlib.sha256(repr(drawn).encode()).hexdigest()[:12]


def overlay(system: str) -> Path:
    """Return the file of `+recipe=<system>`, with what the study adds to a system's recipe."""
    return HERE / "recipe" / f"{system}.yaml"


def settings_digest(task: ProofTask) -> str:
    """Return 12 hexadecimal digits that identify the settings of a system.

    They depend on every character of the overlay, comments included. They do not depend on
    `sft_steps`: `Sizes.chose` checks the warm start itself.
    """
    sizes = {name: value for name, value in asdict(task.sizes).items() if name != "sft_steps"}
    text = overlay(task.system).read_text(encoding="utf-8") + json.dumps(sizes, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _copy_prompts(system: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for prompt in sorted((HERE / "prompts").glob(f"{system}*.yaml")):
        shutil.copyfile(prompt, folder / prompt.name)

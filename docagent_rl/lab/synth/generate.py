"""Writes a synthetic corpus: `pdfs/<doc_id>.pdf`, `records.jsonl` and `synth.json`."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.progress import track

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write, is_leftover
from docagent_rl.lab.synth.names import MAX_DOCUMENTS
from docagent_rl.lab.synth.plan import plan_document
from docagent_rl.lab.synth.settings import GENERATOR_VERSION, SynthSettings
from docagent_rl.records.fields import Split
from docagent_rl.records.record import Record, read_jsonl, write_jsonl

_MANIFEST = "synth.json"
_PARTS = ".parts"
"""Records of single documents; a document is done when its part is there, since that is written last."""


@dataclass(frozen=True)
class SynthReport:
    """What is in a corpus and how much of it was made by this call."""

    out: Path
    documents: int
    pages: int
    records: int
    built: int
    """Documents made now; 0 when everything was there already."""
    splits: dict[str, int]
    """Questions by split."""
    kinds: dict[str, int]
    """Questions by kind."""


def synthesize(out: str | Path, settings: SynthSettings, progress: bool = False) -> SynthReport:
    """Write the corpus of `settings` into the directory `out`.

    The same settings give the same bytes. A finished corpus is left as it is, one that was interrupted is
    continued at the first document that is missing; every file appears whole or not at all.

    Raises:
        UserError: `out` holds other files or the corpus of other settings, or there are more documents than
            names to tell them apart.
    """
    target = Path(out)
    if settings.documents > MAX_DOCUMENTS:
        raise UserError(f"documents must be at most {MAX_DOCUMENTS}, found {settings.documents}")
    complete = _open(target, settings)
    splits = assign_splits(settings)
    indices = range(settings.documents)
    done = _has_pdf if complete else _has_part
    todo = [index for index in indices if not done(target, settings, index)]
    for index in track(todo, "Writing documents", disable=not progress):
        _build(target, settings, index, splits[index])
    if not complete:
        write_jsonl(_numbered(target, settings), target / "records.jsonl")
        _write_manifest(target, settings, complete=True)
    shutil.rmtree(target / _PARTS, ignore_errors=True)
    return _report(target, settings, built=len(todo))


def assign_splits(settings: SynthSettings) -> list[Split]:
    """The split of every document, by index; all questions of a document are in the same one."""
    splits = [split for split, size in settings.split_sizes().items() for _ in range(size)]
    random.Random(f"splits/{settings.seed}").shuffle(splits)
    return splits


def _open(target: Path, settings: SynthSettings) -> bool:
    """Make `target` ready for the corpus; return whether the corpus is there already."""
    manifest = target / _MANIFEST
    if not manifest.is_file():
        if target.exists() and (not target.is_dir() or _holds_others(target, manifest)):
            raise UserError(
                f"{target}: exists and is not a synthetic corpus; choose an empty directory for --out"
            )
        _write_manifest(target, settings, complete=False)
        return False
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
        fingerprint, complete = found["fingerprint"], found["complete"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{manifest}: damaged ({error!r}); remove the directory and start again") from error
    if fingerprint != settings.fingerprint():
        raise UserError(
            f"{target}: holds a corpus of other settings ({json.dumps(found.get('settings'))}); "
            "choose another directory for --out or remove this one"
        )
    return bool(complete) and (target / "records.jsonl").is_file()


def _holds_others(target: Path, manifest: Path) -> bool:
    """Whether there is more in a folder than what a process left that was killed writing the manifest."""
    return any(not is_leftover(path, manifest) for path in target.iterdir())


def _write_manifest(target: Path, settings: SynthSettings, *, complete: bool) -> None:
    content = {
        "generator_version": GENERATOR_VERSION,
        "fingerprint": settings.fingerprint(),
        "settings": asdict(settings),
        "complete": complete,
    }
    atomic_write(target / _MANIFEST, json.dumps(content, indent=2) + "\n")


def _part(target: Path, index: int) -> Path:
    return target / _PARTS / f"{index:05d}.jsonl"


def _has_part(target: Path, settings: SynthSettings, index: int) -> bool:
    return _part(target, index).is_file() and _has_pdf(target, settings, index)


def _has_pdf(target: Path, settings: SynthSettings, index: int) -> bool:
    return _pdf(target, plan_document(settings, index).doc_id).is_file()


def _pdf(target: Path, doc_id: str) -> Path:
    return target / "pdfs" / f"{doc_id}.pdf"


def _build(target: Path, settings: SynthSettings, index: int, split: Split) -> None:
    # reportlab and matplotlib take long to load, and the command line imports this module for its help
    from docagent_rl.lab.synth.layout import render
    from docagent_rl.lab.synth.questions import make_questions

    rendered = render(plan_document(settings, index))
    atomic_write(_pdf(target, rendered.plan.doc_id), rendered.pdf)
    write_jsonl(make_questions(rendered, settings, split), _part(target, index))


def _numbered(target: Path, settings: SynthSettings) -> Iterator[Record]:
    row = 0
    for index in range(settings.documents):
        for record in read_jsonl(_part(target, index)):
            yield dataclasses.replace(record, extra={**record.extra, "row": row})
            row += 1


def _report(target: Path, settings: SynthSettings, *, built: int) -> SynthReport:
    records = read_jsonl(target / "records.jsonl")
    pages = {record.doc_id: record.extra["num_pages"] for record in records}
    return SynthReport(
        out=target,
        documents=settings.documents,
        pages=sum(pages.values()),
        records=len(records),
        built=built,
        splits=dict(Counter(record.split.value for record in records)),
        kinds=dict(Counter(record.extra["kind"] for record in records)),
    )

"""Writes a synthetic corpus: `pdfs/<doc_id>.pdf`, `samples.jsonl` and `synth.json`."""

from __future__ import annotations

import dataclasses
import json
import random
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.progress import track

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_dir
from docagent_rl.lab.synth.settings import SynthSettings
from docagent_rl.samples.fields import Split
from docagent_rl.samples.sample import Sample, read_jsonl, write_jsonl

MANIFEST, SAMPLES = "synth.json", "samples.jsonl"


@dataclass(frozen=True)
class SynthReport:
    """The size of a corpus."""

    out: Path
    documents: int
    pages: int
    samples: int
    built: bool
    """Made by this call, and not there already."""
    splits: dict[str, int]
    """Questions by split."""
    kinds: dict[str, int]
    """Questions by kind."""


def synthesize(out: str | Path, settings: SynthSettings, progress: bool = False) -> SynthReport:
    """Write the corpus of `settings` into the directory `out`, which appears when it is whole.

    The same settings give the same bytes, and a corpus of theirs that is there is left as it is.

    Raises:
        UserError: `out` holds other files or the corpus of other settings, or there are more documents than
            names to tell them apart.
    """
    from docagent_rl.lab.synth.lexicon import MAX_DOCUMENTS

    root = Path(out)
    if settings.documents > MAX_DOCUMENTS:
        raise UserError(f"documents must be at most {MAX_DOCUMENTS}, found {settings.documents}")
    there = _is_there(root, settings)
    if not there:
        with atomic_dir(root) as folder:
            _write(folder, settings, progress=progress)
    samples = read_jsonl(root / SAMPLES)
    return SynthReport(
        out=root,
        documents=settings.documents,
        pages=sum({sample.doc_id: sample.extra["num_pages"] for sample in samples}.values()),
        samples=len(samples),
        built=not there,
        splits=dict(Counter(sample.split.value for sample in samples)),
        kinds=dict(Counter(sample.extra["kind"] for sample in samples)),
    )


def _is_there(root: Path, settings: SynthSettings) -> bool:
    """Return whether the corpus is there; refuse a folder of anything else."""
    manifest = root / MANIFEST
    if not manifest.is_file():
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise UserError(
                f"{root}: exists and is not a synthetic corpus; choose an empty directory for --out"
            )
        return False
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
        fingerprint, others = found["fingerprint"], found["settings"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{manifest}: damaged ({error!r}); remove the directory and start again") from error
    if fingerprint != settings.fingerprint():
        raise UserError(
            f"{root}: holds a corpus of other settings ({json.dumps(others)}); choose another directory for "
            "--out or remove this one"
        )
    return True


def _write(folder: Path, settings: SynthSettings, *, progress: bool) -> None:
    # reportlab and matplotlib take long to load, and the command line imports this module for its help
    from docagent_rl.lab.synth.layout import render
    from docagent_rl.lab.synth.plan import plan_document
    from docagent_rl.lab.synth.questions import make_questions

    (folder / "pdfs").mkdir()
    samples: list[Sample] = []
    splits = _splits(settings)
    for index in track(range(settings.documents), "Writing documents", disable=not progress):
        rendered = render(plan_document(settings, index))
        (folder / "pdfs" / f"{rendered.plan.doc_id}.pdf").write_bytes(rendered.pdf)
        for sample in make_questions(rendered, settings, splits[index]):
            samples.append(dataclasses.replace(sample, extra={**sample.extra, "row": len(samples)}))
    write_jsonl(samples, folder / SAMPLES)
    content = {"fingerprint": settings.fingerprint(), "settings": asdict(settings)}
    (folder / MANIFEST).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _splits(settings: SynthSettings) -> list[Split]:
    """Return the split of every document, by index; all questions of a document are in the same one."""
    splits = [split for split, size in settings.split_sizes().items() for _ in range(size)]
    random.Random(f"splits/{settings.seed}").shuffle(splits)
    return splits

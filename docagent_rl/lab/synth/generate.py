"""Writes a synthetic corpus: `pdfs/<doc_id>.pdf`, `samples.jsonl` and `synth.json`."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.progress import track

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write, is_leftover
from docagent_rl.lab.synth.settings import GENERATOR_VERSION, SynthSettings
from docagent_rl.samples.fields import Split
from docagent_rl.samples.sample import read_jsonl, write_jsonl


@dataclass(frozen=True)
class SynthReport:
    """The size of a corpus and how much of it was made by this call."""

    out: Path
    documents: int
    pages: int
    samples: int
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
    from docagent_rl.lab.synth.lexicon import MAX_DOCUMENTS

    if settings.documents > MAX_DOCUMENTS:
        raise UserError(f"documents must be at most {MAX_DOCUMENTS}, found {settings.documents}")
    return _Corpus(Path(out), settings).write(progress=progress)


class _Corpus:
    """The files of a corpus; a document is done when its part, written last, is there."""

    def __init__(self, root: Path, settings: SynthSettings) -> None:
        self.root, self.settings = root, settings
        self.manifest, self.samples = root / "synth.json", root / "samples.jsonl"
        self.parts = root / ".parts"
        """Samples of single documents."""

    def write(self, *, progress: bool) -> SynthReport:
        complete = self._open()
        indices = range(self.settings.documents)
        todo = [
            index
            for index in indices
            if not (self._pdf(index).is_file() and (complete or self._part(index).is_file()))
        ]
        splits = _splits(self.settings)
        for index in track(todo, "Writing documents", disable=not progress):
            self._build(index, splits[index])
        if not complete:
            found = (sample for index in indices for sample in read_jsonl(self._part(index)))
            numbered = (
                dataclasses.replace(sample, extra={**sample.extra, "row": row})
                for row, sample in enumerate(found)
            )
            write_jsonl(numbered, self.samples)
            self._write_manifest(complete=True)
        shutil.rmtree(self.parts, ignore_errors=True)
        return self._report(built=len(todo))

    def _open(self) -> bool:
        """Make the folder ready for the corpus; return whether the corpus is there already."""
        if not self.manifest.is_file():
            if self.root.exists() and (not self.root.is_dir() or self._holds_others()):
                raise UserError(
                    f"{self.root}: exists and is not a synthetic corpus; choose an empty directory for --out"
                )
            self._write_manifest(complete=False)
            return False
        try:
            found = json.loads(self.manifest.read_text(encoding="utf-8"))
            fingerprint, complete = found["fingerprint"], found["complete"]
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise UserError(
                f"{self.manifest}: damaged ({error!r}); remove the directory and start again"
            ) from error
        if fingerprint != self.settings.fingerprint():
            raise UserError(
                f"{self.root}: holds a corpus of other settings ({json.dumps(found.get('settings'))}); "
                "choose another directory for --out or remove this one"
            )
        return bool(complete) and self.samples.is_file()

    def _holds_others(self) -> bool:
        """Return whether there is more than what a process left that was killed writing the manifest."""
        return any(not is_leftover(path, self.manifest) for path in self.root.iterdir())

    def _write_manifest(self, *, complete: bool) -> None:
        content = {
            "generator_version": GENERATOR_VERSION,
            "fingerprint": self.settings.fingerprint(),
            "settings": asdict(self.settings),
            "complete": complete,
        }
        atomic_write(self.manifest, json.dumps(content, indent=2) + "\n")

    def _part(self, index: int) -> Path:
        return self.parts / f"{index:05d}.jsonl"

    def _pdf(self, index: int) -> Path:
        from docagent_rl.lab.synth.plan import plan_document

        return self.root / "pdfs" / f"{plan_document(self.settings, index).doc_id}.pdf"

    def _build(self, index: int, split: Split) -> None:
        # reportlab and matplotlib take long to load, and the command line imports this module for its help
        from docagent_rl.lab.synth.layout import render
        from docagent_rl.lab.synth.plan import plan_document
        from docagent_rl.lab.synth.questions import make_questions

        rendered = render(plan_document(self.settings, index))
        atomic_write(self._pdf(index), rendered.pdf)
        write_jsonl(make_questions(rendered, self.settings, split), self._part(index))

    def _report(self, *, built: int) -> SynthReport:
        samples = read_jsonl(self.samples)
        pages = {sample.doc_id: sample.extra["num_pages"] for sample in samples}
        return SynthReport(
            out=self.root,
            documents=self.settings.documents,
            pages=sum(pages.values()),
            samples=len(samples),
            built=built,
            splits=dict(Counter(sample.split.value for sample in samples)),
            kinds=dict(Counter(sample.extra["kind"] for sample in samples)),
        )


def _splits(settings: SynthSettings) -> list[Split]:
    """Return the split of every document, by index; all questions of a document are in the same one."""
    splits = [split for split, size in settings.split_sizes().items() for _ in range(size)]
    random.Random(f"splits/{settings.seed}").shuffle(splits)
    return splits

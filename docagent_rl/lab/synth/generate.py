"""Writes a synthetic corpus: `pdfs/<doc_id>.pdf`, `samples.jsonl` and `synth.json`."""

import json
import random
from pathlib import Path

from rich.progress import track

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_dir
from docagent_rl.lab.synth.settings import SynthSettings
from docagent_rl.samples.sample import Sample, Split, write_jsonl

MANIFEST = "synth.json"
SAMPLES = "samples.jsonl"
HELD_OUT = 0.15
"""Share of the documents for validation, and again for testing; at least one each if there are
three or more.
"""


def synthesize(out: str | Path, settings: SynthSettings, progress: bool = False) -> bool:
    """Write the corpus of `settings` into the directory `out`, which is created only when complete.

    The same settings give the same bytes; if `out` already contains their corpus, it is left as it
    is. Return whether a corpus was written.

    Raises:
        UserError: `out` contains other files or the corpus of other settings, or there are too many
            documents for the supply of names.
    """
    from docagent_rl.lab.synth.lexicon import MAX_DOCUMENTS

    root = Path(out)
    if settings.documents > MAX_DOCUMENTS:
        raise UserError(f"documents must be at most {MAX_DOCUMENTS}, found {settings.documents}")
    if _is_there(root, settings):
        return False
    with atomic_dir(root) as folder:
        _write(folder, settings, progress=progress)
    return True


def _is_there(root: Path, settings: SynthSettings) -> bool:
    """Return whether the corpus exists; raise `UserError` if the folder contains something else."""
    manifest = root / MANIFEST
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        return False
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if found != settings.described():
        raise UserError(
            f"{root} contains something other than this corpus ({MANIFEST}: {json.dumps(found)}): "
            "choose another directory for --out, or remove this one"
        )
    return True


def _write(folder: Path, settings: SynthSettings, *, progress: bool) -> None:
    # imported here, since reportlab and matplotlib are slow to import, and the command line imports
    # this module just for its help
    from docagent_rl.lab.synth.layout import render_document
    from docagent_rl.lab.synth.plan import DocumentPlan
    from docagent_rl.lab.synth.questions import make_questions

    (folder / "pdfs").mkdir()
    samples: list[Sample] = []
    splits = _splits(settings)
    for index in track(range(settings.documents), "Writing documents", disable=not progress):
        rendered = render_document(DocumentPlan(settings, index))
        (folder / "pdfs" / f"{rendered.plan.doc_id}.pdf").write_bytes(rendered.pdf)
        samples += make_questions(rendered, settings, splits[index], first=len(samples))
    write_jsonl(samples, folder / SAMPLES)
    (folder / MANIFEST).write_text(
        json.dumps(settings.described(), indent=2) + "\n", encoding="utf-8"
    )


def _splits(settings: SynthSettings) -> list[Split]:
    """Return the split of every document by index; all questions about a document are in its
    split.
    """
    count = settings.documents
    held_out = max(round(HELD_OUT * count), int(count >= 3))
    splits = (
        [Split.TRAIN] * (count - 2 * held_out) + [Split.VAL] * held_out + [Split.TEST] * held_out
    )
    random.Random(f"splits/{settings.seed}").shuffle(splits)
    return splits

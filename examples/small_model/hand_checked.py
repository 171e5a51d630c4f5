"""Add hand-checked questions: `python -m small_model.hand_checked TEMPLATES OUT DOCUMENT...`."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path

from docagent_rl.base.io import atomic_write

QUESTIONS = Path(__file__).parents[2] / "benchmarks" / "retrieval" / "questions.jsonl"


def add(templates: Path, out: Path, documents: Collection[str]) -> int:
    """Write the questions from templates, then the hand-checked ones about the same documents.

    Returns:
        the number of hand-checked questions.
    """
    lines = QUESTIONS.read_text(encoding="utf-8").splitlines(keepends=True)
    own = [line for line in lines if json.loads(line)["doc_id"] in documents]
    atomic_write(out, templates.read_text(encoding="utf-8") + "".join(own))
    return len(own)


if __name__ == "__main__":
    found = add(Path(sys.argv[1]), Path(sys.argv[2]), set(sys.argv[3:]))
    print(f"{sys.argv[2]}: {found} hand-checked questions added")

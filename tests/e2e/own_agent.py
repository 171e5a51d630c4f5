"""The chain of an agent of one's own on two PDFs: two steps of the trainer, up to a report."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.lab.own_agent.project import FILE
from docagent_rl.lab.tiny.workspace import DemoPaths
from tests.documents.conftest import write_pdf
from tests.e2e.conftest import add_model

STEPS, SYSTEM = 2, "vrag_rl"
TEXTS = ("The mill opened in spring", "Its wheel turns twice", "The baker buys flour")


@dataclass(frozen=True)
class OwnRun:
    """A chain's folder, and the output of its two starts."""

    folder: Path
    said: str
    """The output of the first start."""
    repeated: str
    """The output of the second start."""


def play(place: Path, demo: Path, python: Path) -> OwnRun:
    """Make a folder, choose two steps, and run its chain twice, with the tiny model of a demo."""
    for name in ("mill", "bakery"):
        write_pdf(place / "pdfs" / f"{name}.pdf", [f"{name}: {text}" for text in TEXTS])
    folder = place / "agent"
    _docagent(python, "init", str(folder), "--documents", str(place / "pdfs"))
    file = folder / FILE
    chosen = file.read_text(encoding="utf-8").replace("steps: null", f"steps: {STEPS}")
    file.write_text(chosen, encoding="utf-8")
    add_model(demo, SYSTEM, python)
    shutil.copytree(DemoPaths(demo).model(SYSTEM), DemoPaths(folder).model(SYSTEM))
    said = _docagent(python, "run", str(folder))
    return OwnRun(folder, said, _docagent(python, "run", str(folder)))


def _docagent(python: Path, *words: str) -> str:
    variables = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "RAY_ADDRESS": "local"}
    done = subprocess.run(
        [str(python), "-m", "docagent_rl.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-6000:]}"
    return done.stdout

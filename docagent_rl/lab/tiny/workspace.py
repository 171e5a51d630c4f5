"""Paths of the parts of a workspace, and the marker of one that the demo made."""

from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.systems import get_system

MARKER = "docagent_demo.json"
"""Written by the demo before anything else; a workspace without it belongs to the user."""

_BLANK = frozenset({"pdfs", "runs", "models"})
"""Names that a new workspace may already contain: PDFs to begin with, folders of runs that were
refused, models. None of these is overwritten.
"""


class Owner(Enum):
    """The owner of a workspace."""

    NOBODY = "nobody"
    """It does not exist, or contains nothing that belongs to anybody's data."""
    DEMO = "demo"
    USER = "user"


@dataclass(frozen=True, slots=True)
class DemoPaths:
    """Paths of the parts of a demo; the recipes' defaults name the same paths.

    PDFs that the user puts into `pdfs` are ingested too.
    """

    workspace: Path

    @property
    def pdfs(self) -> Path:
        """PDFs to ingest."""
        return self.workspace / "pdfs"

    @property
    def store(self) -> Path:
        """The document store."""
        return self.workspace / "store"

    @property
    def index(self) -> Path:
        """The BM25 index."""
        return self.workspace / "index"

    def index_of(self, model: str) -> Path:
        """Return the vector index of a model."""
        return self.workspace / f"index_{model}"

    def data(self, part: StrEnum) -> Path:
        """Return the question file of a split, in verl's Parquet format."""
        return self.workspace / "data" / f"{part.value}.parquet"

    @property
    def synthetic(self) -> Path:
        """Synthetic reports and their questions."""
        return self.workspace / "synthetic"

    @property
    def marker(self) -> Path:
        """The file that shows that the demo made the workspace."""
        return self.workspace / MARKER

    @property
    def models(self) -> Path:
        """Tiny models."""
        return self.workspace / "models"

    def model(self, system: str, family: str | None = None) -> Path:
        """Return the tiny model that was warmed up on a system, of the given family or the system's
        own.
        """
        return self.models / f"tiny_{system}_{family or get_system(system).model_family}"

    def owner(self) -> Owner:
        """Return the owner of the workspace.

        Raises:
            UserError: the workspace is a file.
        """
        if self.marker.is_file():
            return Owner.DEMO
        return Owner.USER if self.contents() else Owner.NOBODY

    def contents(self) -> list[str]:
        """Return the sorted names in the workspace, without hidden files and names that a new one
        may contain.
        """
        if not self.workspace.exists():
            return []
        if not self.workspace.is_dir():
            raise UserError(f"workspace {self.workspace} is a file: name a folder")
        names = (path.name for path in self.workspace.iterdir())
        return sorted(name for name in names if not name.startswith(".") and name not in _BLANK)


def claim(paths: DemoPaths) -> None:
    """Mark a new workspace as the demo's.

    Raises:
        UserError: the workspace is the user's; the message names it and says what to do.
    """
    owner = paths.owner()
    if owner is Owner.USER:
        raise UserError(
            f"workspace {paths.workspace} is yours, not the demo's (it contains "
            f"{', '.join(paths.contents())} but no {MARKER}): the demo would mix its documents and "
            "questions with yours. Name a new folder: docagent-rl demo --workspace NEW. To try "
            "your own data on a CPU, run a recipe with +profile=cpu, which makes only the tiny "
            "model"
        )
    if owner is Owner.NOBODY:
        atomic_write(paths.marker, "{}\n")

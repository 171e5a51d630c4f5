"""The paths of a rehearsal's workspace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from docagent_rl.samples.sample import Split


@dataclass(frozen=True, slots=True)
class RehearsalPaths:
    """Paths of the parts of a rehearsal's workspace; the profile names the same paths.

    Args:
        workspace: the folder.
        family: the family of the tiny model.
        longest: the largest number of tokens of a context.
    """

    workspace: Path
    family: str
    longest: int

    @property
    def store(self) -> Path:
        """The document store."""
        return self.workspace / "store"

    @property
    def index(self) -> Path:
        """The index of BM25."""
        return self.workspace / "index"

    @property
    def model(self) -> Path:
        """The tiny model."""
        return self.workspace / "models" / f"{self.family}_{self.longest}"

    def data(self, split: Split) -> Path:
        """Return the file of questions of a split."""
        return self.workspace / "data" / f"{split.value}.parquet"

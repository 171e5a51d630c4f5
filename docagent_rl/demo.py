"""A workspace to try everything on: synthetic reports, real PDFs if there are any, and a tiny model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from docagent_rl.data.record import Split


@dataclass(frozen=True, slots=True)
class DemoPaths:
    """Where the parts of a workspace are; the recipes' defaults name the same places."""

    workspace: Path

    @property
    def pdfs(self) -> Path:
        """PDFs of the user's own: whatever lies here is ingested too."""
        return self.workspace / "pdfs"

    @property
    def synthetic(self) -> Path:
        """Synthetic reports and their questions."""
        return self.workspace / "synthetic"

    @property
    def store(self) -> Path:
        """The document store."""
        return self.workspace / "store"

    @property
    def index(self) -> Path:
        """The BM25 index."""
        return self.workspace / "index"

    @property
    def model(self) -> Path:
        """The tiny model."""
        return self.workspace / "models" / "tiny_qwen2_5_vl"

    def data(self, split: Split) -> Path:
        """A parquet file of verl's shape."""
        return self.workspace / "data" / f"{split.value}.parquet"

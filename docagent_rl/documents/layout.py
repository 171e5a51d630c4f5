"""Where a document store keeps what."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.documents.objects import ObjectStore
from docagent_rl.errors import UserError
from docagent_rl.io import atomic_write

MARKER = "docagent_store.json"
_FORMAT = {"format": "docagent-rl document store", "version": 1}


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """The paths of a store.

    ```
    docagent_store.json           marks the folder as a store
    objects/<2 hex>/<sha256>.*    page rasters (.jpg) and texts (.txt.gz)
    documents/<sha256>.json       one manifest a document, named by the hash of its id
    partial/<sha256>/<page>.json  finished page ranges of documents not finished yet
    ```
    Ids are hashed, never joined into a path.
    """

    root: Path

    @property
    def objects(self) -> ObjectStore:
        """The rasters and texts."""
        return ObjectStore(self.root / "objects")

    def manifest(self, doc_id: str) -> Path:
        """The manifest of a document, there or not."""
        return self.root / "documents" / f"{_digest(doc_id)}.json"

    def manifests(self) -> Iterator[Path]:
        """The manifests that are there."""
        folder = self.root / "documents"
        if folder.is_dir():
            # files being written start with a dot
            yield from (path for path in folder.glob("*.json") if not path.name.startswith("."))

    def partial(self, doc_id: str, source_sha256: str, settings_key: str) -> Path:
        """The folder of the page ranges of one version of a document."""
        return self.root / "partial" / _digest("\0".join((doc_id, source_sha256, settings_key)))

    def require(self) -> StoreLayout:
        """Check that this is a store.

        Raises:
            UserError: It is not, or it is of another version.
        """
        marker = self.root / MARKER
        if not marker.is_file():
            raise UserError(
                f"{self.root} is not a document store (no {MARKER}): "
                f"make one with `docagent-rl ingest FOLDER --store {self.root}`"
            )
        try:
            found = json.loads(marker.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{marker}: not JSON ({error})") from error
        if found != _FORMAT:
            raise UserError(f"{marker}: a store of another version ({found}); ingest the documents again")
        return self

    def create(self) -> StoreLayout:
        """Make the folder a store, unless it is one.

        Raises:
            UserError: The path is a file, or a folder that holds something else.
        """
        if self.root.exists() and not self.root.is_dir():
            raise UserError(f"the store {self.root} is a file: name a folder")
        if (self.root / MARKER).exists():
            return self.require()
        if self.root.is_dir() and any(self.root.iterdir()):
            raise UserError(
                f"the folder {self.root} is not empty and not a document store: name a new folder"
            )
        atomic_write(self.root / MARKER, json.dumps(_FORMAT) + "\n")
        return self


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()

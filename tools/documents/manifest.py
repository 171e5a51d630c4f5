"""Read and check the list of documents."""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from docagent_rl.base.errors import UserError

MANIFEST = Path(__file__).with_name("documents.json")
"""The list of the documents that the hand-checked questions are about."""

_Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$")]


class DocumentKind(StrEnum):
    """The kind of a document, as a reader would name it."""

    MANUAL = "manual"
    GUIDE = "guide"
    SLIDES = "slides"
    SURVEY = "survey"
    REPORT = "report"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Fetched(_Entry):
    """A PDF from a Debian package. The documents are fetched for local use and never passed on."""

    doc_id: _Name
    title: str
    kind: DocumentKind
    pages: Annotated[int, Field(ge=1)]
    package: _Name
    version: Annotated[str, Field(pattern=r"^[0-9A-Za-z.+~:-]+$")]
    path: Annotated[str, Field(pattern=r"^[^/].*\.pdf(\.gz)?$")]
    """Path in the package; `.gz` is decompressed."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Digest of the decompressed PDF."""
    licence: str
    licence_file: str
    """File in the package that states the licence."""


class Scan(_Entry):
    """A document as a scanner would produce it: page images without text."""

    doc_id: _Name
    of: _Name
    dpi: Annotated[int, Field(ge=10, le=1200)]
    seed: int


class Manifest(_Entry):
    """All documents."""

    documents: tuple[Fetched, ...]
    scans: tuple[Scan, ...] = ()

    def pages(self) -> dict[str, int]:
        """Return the number of pages of each document and each scan."""
        pages = {document.doc_id: document.pages for document in self.documents}
        return pages | {scan.doc_id: pages[scan.of] for scan in self.scans}


def read_manifest(path: Path = MANIFEST) -> Manifest:
    """Read a list of documents.

    Raises:
        UserError: the file is missing or invalid, names a document twice, or scans one that is not
            listed.
    """
    try:
        manifest = Manifest.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise UserError(f"{path} is not a list of documents: {error}") from error
    fetched = {document.doc_id for document in manifest.documents}
    ids = Counter(
        [*(document.doc_id for document in manifest.documents), *(s.doc_id for s in manifest.scans)]
    )
    if twice := [doc_id for doc_id, count in ids.items() if count > 1]:
        raise UserError(f"{path}: {twice[0]!r} is listed twice")
    if lost := [scan for scan in manifest.scans if scan.of not in fetched]:
        raise UserError(
            f"{path}: {lost[0].doc_id!r} is a scan of {lost[0].of!r}, which is not listed"
        )
    return manifest

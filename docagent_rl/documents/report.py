"""What an ingest did."""

from __future__ import annotations

from dataclasses import dataclass, field

from docagent_rl.documents.failures import FailedDocument


@dataclass(slots=True)
class IngestReport:
    """What an ingest did, by document id, sorted."""

    ingested: list[str] = field(default_factory=list)
    """Documents stored by this run, whole."""
    replaced: list[str] = field(default_factory=list)
    """Those among `ingested` of which the store held another version (other content or settings)."""
    skipped: list[str] = field(default_factory=list)
    """Documents that the store held already."""
    failed: list[FailedDocument] = field(default_factory=list)
    """Sources that were left out."""
    pages: int = 0
    """Pages of the ingested documents."""
    resumed_pages: int = 0
    """Those among `pages` that an interrupted run had stored."""

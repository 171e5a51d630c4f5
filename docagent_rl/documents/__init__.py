"""Documents: ingested once, then read page by page from many processes.

`DocumentStore` reads a content-addressed store; `ingestion.ingest` fills it from PDFs or page images.
"""

from __future__ import annotations

from docagent_rl.documents.manifest import Box, OutlineEntry, PageRef, PageRegion, Source
from docagent_rl.documents.settings import RendererKind, RenderSettings
from docagent_rl.documents.store import Document, DocumentStore, Page, PageContent

__all__ = [
    "Box",
    "Document",
    "DocumentStore",
    "OutlineEntry",
    "Page",
    "PageContent",
    "PageRef",
    "PageRegion",
    "RenderSettings",
    "RendererKind",
    "Source",
]

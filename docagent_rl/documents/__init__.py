"""Documents: ingested once, then read page by page from many processes.

`ingestion.ingest` fills a content-addressed store from PDFs or page images, and
`store.DocumentStore` reads it. Code that only refers to documents, such as an environment, needs
neither, so this package imports neither.
"""

from docagent_rl.documents.references import Box, OutlineEntry, PageRef, PageRegion
from docagent_rl.documents.settings import RendererKind, RenderSettings

__all__ = ["Box", "OutlineEntry", "PageRef", "PageRegion", "RenderSettings", "RendererKind"]

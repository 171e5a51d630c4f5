"""Documents: ingested once, then read page by page from many processes.

`store.DocumentStore` reads a content-addressed store; `ingestion.ingest` fills it from PDFs or page
images. What refers to documents (an environment, say) needs neither, and so this package imports
neither.
"""

from docagent_rl.documents.references import Box, OutlineEntry, PageRef, PageRegion
from docagent_rl.documents.settings import RendererKind, RenderSettings

__all__ = ["Box", "OutlineEntry", "PageRef", "PageRegion", "RenderSettings", "RendererKind"]

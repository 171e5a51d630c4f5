"""Descriptions of the pictures on pages by a vision model, for searches over text.

They are stored apart from a page's own text (in `PageEntry.described`): agents and questions use
only the text.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.prompts import PromptSpec, load_prompt
from docagent_rl.documents.contents import list_of_figures
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import TextReason
from docagent_rl.documents.store import Document, Page
from docagent_rl.endpoints.chat_reply import Unanswered, reply_text
from docagent_rl.endpoints.meter import BudgetError
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.endpoints.retrying import run_jobs
from docagent_rl.endpoints.usage import image_part

_FEW_CHARACTERS = 300
"""A page with fewer characters, not counting spaces, may have its content in pictures."""
_NOTHING = "none"
_AROUND = " .*_`'\""
_WAITING = "An ingest is writing to this store: waiting for it to end ..."


def pictured_pages(document: Document, *, every: bool = False) -> Iterator[Page]:
    """Yield the pages to ask a model about: those with few characters or the caption of a figure.

    Captions come from `list_of_figures`; those of tables do not count. `every` yields the other
    pages, too. Pages that ingestion found blank are always left out.
    """
    pages = [document.page(number) for number in range(1, document.num_pages + 1)]
    texts = {page.ref.page: page.text() for page in pages}
    figures = {caption.page for caption in list_of_figures(texts) if not caption.is_of_table}
    for page in pages:
        few = len("".join(texts[page.ref.page].split())) < _FEW_CHARACTERS
        blank = page.reading is not None and page.reading.reason is TextReason.BLANK
        if (every or few or page.ref.page in figures) and not blank:
            yield page


async def describe(
    pages: Sequence[Page], model: RemoteModel, done: Callable[[], None]
) -> tuple[dict[str, str], Counter[str]]:
    """Ask a model to describe pages, one request each, and call `done` after each.

    Returns:
        Descriptions by the digest of the picture, empty if nothing is pictured; and the reasons for
        missing replies, counted.

    Raises:
        BudgetError: the budget is used up.
        InfrastructureError: the endpoint fails for many requests, or refuses them.
        UserError: a picture is missing or damaged.
    """
    words = {
        "type": "text",
        "text": load_prompt("describe_page", PromptSpec(frozenset({"user"}))).render("user"),
    }
    texts: dict[str, str] = {}
    reasons = Counter()
    unanswered = Unanswered()
    over = []

    async def ask(page: Page) -> None:
        content = [words, image_part(await asyncio.to_thread(page.image_bytes))]
        try:
            # even a description that was cut off is worth searching
            reply = await model.ask([{"role": "user", "content": content}], partial=True)
        except BudgetError as error:  # go on: later pages may have cached replies
            over.append(error)
            return
        except InfrastructureError as error:
            if (why := unanswered.reason(error)) is None:
                raise
            reasons[why] += 1
            return
        unanswered.answered()
        text = reply_text(reply.text)
        texts[page.image_hash] = "" if text.strip(_AROUND).casefold() == _NOTHING else text

    try:
        await run_jobs(pages, ask, at_once=model.endpoint.concurrency, done=done)
    finally:
        await model.aclose()
    if over:
        left = sum(page.image_hash not in texts for page in pages)
        raise over[0].leaving(f"{left} of {len(pages)} pages; the store was not changed")
    return texts, reasons


def store_descriptions(store: Path, doc_ids: Iterable[str], texts: Mapping[str, str]) -> int:
    """Store the descriptions that `describe` returned; return the number of changed documents.

    An empty description removes the page's earlier one; pages with other pictures do not change.

    Raises:
        UserError: the store cannot be written.
    """
    layout = StoreLayout(store).require()
    changed = 0
    with layout.lock(partial(Console(stderr=True).print, _WAITING)):
        digests = {each: layout.objects.put(text) if text else None for each, text in texts.items()}
        # a document may have been removed or replaced while the model was asked
        for path in filter(Path.is_file, map(layout.manifest, doc_ids)):
            old = layout.read_manifest(path)
            pages = [
                replace(page, described=digests.get(page.image, page.described))
                for page in old.pages
            ]
            if tuple(pages) != old.pages:
                layout.write_manifest(replace(old, pages=tuple(pages)))
                changed += 1
        layout.seal_rest()
    return changed

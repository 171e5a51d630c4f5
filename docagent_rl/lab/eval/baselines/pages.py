"""Pages as a baseline shows them: each with a line that names it, as image or as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from docagent_rl.base.untrusted import without_tokens
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import ImagePart, Part, TextPart
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.token_budget import cut_to_tokens
from docagent_rl.envs.views import page_view
from docagent_rl.lab.eval.baselines.config import PageConfig, PageForm

_IMAGE_FRAME = 2
"""Tokens that a template puts around an image."""


class Say(Protocol):
    """Renders a part of a prompt file."""

    def __call__(self, part: str, **variables: Any) -> str:
        """The text of a part."""
        ...


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page with the line above it.

    Args:
        ref: the page.
        parts: what is shown.
        tokens: of the parts; texts are counted by the services' counter.
        image_tokens: those of its image.
        described: for the record, JSON-ready.
    """

    ref: PageRef
    parts: tuple[Part, ...]
    tokens: int
    image_tokens: int
    described: dict[str, Any]


@dataclass(slots=True)
class Shown:
    """Pages in the order in which they are shown.

    Args:
        pages: them.
        crowded_out: pages that would have come next and did not fit.
        beyond: pages behind those that the configuration lets a document have.
    """

    pages: list[ShownPage] = field(default_factory=list)
    crowded_out: int = 0
    beyond: int = 0

    @property
    def left_out(self) -> int:
        """Pages that are not shown, for either reason."""
        return self.crowded_out + self.beyond

    @property
    def parts(self) -> list[Part]:
        """What is shown, in order."""
        return [part for page in self.pages for part in page.parts]

    @property
    def image_tokens(self) -> int:
        """Visual tokens."""
        return sum(page.image_tokens for page in self.pages)


def show_page(
    ref: PageRef, config: PageConfig, services: EnvServices, say: Say, *, turn: int, rank: int | None = None
) -> ShownPage:
    """A page as image or text; reads files.

    Raises:
        UserError: there is no such page, or it cannot be shown.
    """
    page, label = services.store.page(ref), f"{say('page_label', page=ref.page, doc_id=ref.doc_id)}\n"
    found: dict[str, Any] = {"page": str(ref)} if rank is None else {"page": str(ref), "rank": rank}
    if config.form is PageForm.IMAGE:
        view = page_view(page, config.display, turn)
        tokens = services.count_tokens(label) + view.tokens + _IMAGE_FRAME
        parts = (TextPart(label), ImagePart(view.image))
        return ShownPage(ref, parts, tokens, view.tokens, {**view.to_dict(), **found})
    # spellings of special tokens are broken anyway, and take more tokens then: counted as they will be
    broken = without_tokens(page.text().strip())
    text = cut_to_tokens(broken, config.page_tokens, services.count_tokens)
    shown = f"{label}{say('page_text', text=text or say('no_text'))}\n"
    return ShownPage(ref, (TextPart(shown),), services.count_tokens(shown), 0, found)


def fitting(pages: Iterable[ShownPage], total: int, room: int | None) -> Shown:
    """The first pages that fit together; the others are not even read.

    Args:
        pages: in order.
        total: how many there are.
        room: tokens; `None` is without limit.
    """
    shown, used = Shown(), 0
    for page in pages:
        used += page.tokens
        if room is not None and used > room:
            break
        shown.pages.append(page)
    shown.crowded_out = total - len(shown.pages)
    return shown


def recall_of(pages: Sequence[PageRef], gold: frozenset[PageRef]) -> float | None:
    """Share of the gold pages that were shown; `None` where nothing is gold."""
    return len(gold.intersection(pages)) / len(gold) if gold else None

"""An upper bound on what a generation will request, computed before anything is sent."""

from collections.abc import Sequence
from functools import cache

from docagent_rl.endpoints.meter import Amount
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.endpoints.usage import pixel_tokens, text_tokens
from docagent_rl.lab.generate.config import EvidenceKind, PageView
from docagent_rl.lab.generate.generation import Generation
from docagent_rl.lab.generate.plan import Slot

_WORDS = 900
"""Tokens of a request without its pages: the longest prompt, a question and two answers."""
_AROUND = 20
"""Tokens that separate a page from the rest."""


def forecast(run: Generation) -> Amount:
    """Return what a run requests if every question passes every check, and every reply has the
    maximum length.

    Second requests, after replies that cannot be parsed, are not included. Tokens are estimated.
    """
    config = run.config
    views = run.views
    picture = pixel_tokens(config.max_pixels) if config.view.pictures else 0

    @cache
    def tokens(doc_id: str, page: int) -> int:
        text = 0 if config.view is PageView.IMAGE else text_tokens(views.of(doc_id).texts[page])
        return _AROUND + picture + text

    # each endpoint is first sent a small request, to see whether it answers
    asked = [_WORDS]
    compared = [_WORDS] if run.judge not in (None, run.model) else []
    for slot in run.slots:
        pages = sorted(views.of(slot.doc_id).readable, key=lambda page: tokens(slot.doc_id, page))
        plain, answered = _checks(run, slot, pages)
        checks = [*plain, *answered] * slot.questions
        asked += [
            _WORDS + sum(tokens(slot.doc_id, page) for page in shown)
            for shown in (slot.pages, *checks)
        ]
        compared += [_WORDS] * (len(answered) * slot.questions if run.judge else 0)
    both = zip(_most(run.model, asked), _most(run.judge or run.model, compared), strict=True)
    return Amount(*map(sum, both))


def _checks(
    run: Generation, slot: Slot, pages: Sequence[int]
) -> tuple[list[Sequence[int]], list[Sequence[int]]]:
    """Return the pages that each check of a question shows at most; separately those of checks
    whose answers are compared.

    `pages` are the document's readable pages, the longest last.
    """
    filters = run.config.filters
    several = len(slot.pages)
    plain: list[Sequence[int]] = [()] * filters.clear
    if slot.kind is EvidenceKind.UNANSWERABLE:
        starts = range(0, len(pages) if filters.unanswered else 0, filters.window)
        return [*plain, *(pages[start : start + filters.window] for start in starts)], []
    answered: list[Sequence[int]] = [()] * filters.closed_book
    answered += [slot.pages] * (
        filters.grounded + (several if filters.needed and several > 1 else 0)
    )
    return plain, answered + [pages[-filters.elsewhere_pages :]] * filters.elsewhere


def _most(model: RemoteModel, sent: Sequence[int]) -> Amount:
    """Return the amount for requests of these lengths."""
    sampled = len(sent) * model.endpoint.max_tokens
    return Amount(model.endpoint.price.cost(sum(sent), sampled), sum(sent) + sampled, len(sent))

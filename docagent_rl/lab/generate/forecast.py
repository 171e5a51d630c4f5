"""A forecast of what a run would take, before anything is asked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from rich.table import Table

from docagent_rl.endpoints.endpoint import Price
from docagent_rl.endpoints.usage import message_tokens
from docagent_rl.lab.generate.config import JudgedBy, Kind
from docagent_rl.lab.generate.generation import Generation
from docagent_rl.lab.generate.plan import Slot

# tokens, as replies of the shapes that are asked for have them
_QUESTION = 90
_VERDICT = 30
_PROMPT = 330
"""Tokens of a check without its pages."""
COMPARED = "compare answers"


Step = Counter[str]
"""`requests` of one step at most, with `sent` and `sampled` tokens: what fails is examined no further."""


def forecast(run: Generation) -> dict[str, Step]:
    """Count what a run would ask, by step. Reads pages, and sends nothing.

    Raises:
        UserError: a page cannot be read.
    """
    steps = {"write questions": Step(), "check them": Step(), COMPARED: Step()}
    write, check, compare = steps.values()
    tokens = cache(run.views.tokens)
    for slot in run.slots:
        sent = message_tokens(run.messages(slot))
        write.update(requests=1, sent=sent, sampled=_QUESTION * slot.questions)
        for requests, pages, compared in _checks(run, slot):
            shown, many = sum(tokens(slot.doc_id, page) for page in pages), requests * slot.questions
            sent, sampled = many * _PROMPT, many * _VERDICT
            check.update(requests=many, sent=sent + slot.questions * shown, sampled=sampled)
            if compared and run.config.judge is JudgedBy.MODEL:
                compare.update(requests=many, sent=sent, sampled=sampled)
    return steps


def forecast_table(steps: Mapping[str, Step], price: Price, judge: Price) -> Table:
    """Return a table for the terminal; `judge` is the price of the model that compares answers."""
    table = Table("", title="What would be asked, at most")
    currency = next((each.currency for each in (price, judge) if each.is_known), "")
    for heading in ("requests", "tokens in", "tokens out", f"cost {currency}"):
        table.add_column(heading, justify="right")
    spent = 0.0
    for name, step in steps.items():
        own = judge if name == COMPARED else price
        cost = own.cost(step["sent"], step["sampled"]) if own.is_known else None
        spent += cost or 0.0
        table.add_row(name, *_cells(step, cost))
    total = sum(steps.values(), Step())
    table.add_row("all", *_cells(total, spent if currency else None), style="bold")
    return table


def samples(run: Generation) -> list[tuple[Kind, Sequence[Mapping[str, Any]]]]:
    """Return the first request of each kind."""
    first: dict[Kind, Slot] = {}
    for slot in run.slots:
        first.setdefault(slot.kind, slot)
    return [(kind, run.messages(slot)) for kind, slot in first.items()]


def _cells(step: Step, cost: float | None) -> tuple[str, ...]:
    tokens = f"~{step['sent']:,}", f"~{step['sampled']:,}"
    return f"{step['requests']:,}", *tokens, "-" if cost is None else f"{cost:,.4f}"


def _checks(run: Generation, slot: Slot) -> Iterator[tuple[int, Sequence[int], bool]]:
    """Yield the checks of a question: requests, the pages that these show together, whether answers are
    compared.
    """
    filters, readable = run.config.filters, run.views.of(slot.doc_id).readable
    if filters.clear:
        yield 1, (), False
    if slot.kind is Kind.UNANSWERABLE:
        if filters.unanswered:
            yield math.ceil(len(readable) / filters.window), readable, False
        return
    others = [page for page in readable if page not in slot.pages][: filters.elsewhere_pages]
    several = len(slot.pages)
    if filters.closed_book:
        yield 1, (), True
    if filters.grounded:
        yield 1, slot.pages, True
    if filters.needed and several > 1:
        yield several, slot.pages * (several - 1), True
    if filters.elsewhere and others:
        yield 1, others, True

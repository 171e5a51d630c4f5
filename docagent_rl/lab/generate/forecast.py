"""A forecast of what a run would take, before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from docagent_rl.endpoints.endpoint import Price
from docagent_rl.endpoints.usage import message_tokens
from docagent_rl.lab.generate.config import JudgedBy, Kind
from docagent_rl.lab.generate.generation import Generation
from docagent_rl.lab.generate.plan import Slot

if TYPE_CHECKING:
    from rich.table import Table

# tokens, as replies of the shapes that are asked for have them
_QUESTION = 90
_VERDICT = 30
_PROMPT = 330
"""Tokens of a check without its pages."""
_COMPARED = "compare answers"


@dataclass(slots=True)
class Line:
    """Requests of one step at most: a question that fails a check is examined no further."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, requests: int, prompt: int, completion: int) -> None:
        """Count requests, with the tokens of all of them."""
        self.requests += requests
        self.prompt_tokens += prompt
        self.completion_tokens += completion


def forecast(run: Generation) -> dict[str, Line]:
    """Count what a run would ask, by step in their order. Reads pages, and sends nothing.

    Raises:
        UserError: a page cannot be read.
    """
    steps: dict[str, Line] = {}
    tokens = cache(run.views.tokens)
    for slot in run.slots:
        line = steps.setdefault("write questions", Line())
        line.add(1, message_tokens(run.messages(slot)), _QUESTION * slot.questions)
        for name, requests, pages in _checks(run, slot):
            shown = sum(tokens(slot.doc_id, page) for page in pages)
            many = requests * slot.questions
            line = steps.setdefault(name, Line())
            line.add(many, many * _PROMPT + slot.questions * shown, many * _VERDICT)
    return steps


def forecast_table(steps: Mapping[str, Line], price: Price, judge: Price) -> Table:
    """Return a table for the terminal; `judge` is the price of the model that compares answers."""
    from rich.table import Table

    table = Table("", title="What would be asked, at most")
    currency = next((each.currency for each in (price, judge) if each.is_known), "")
    for heading in ("requests", "tokens in", "tokens out", f"cost {currency}"):
        table.add_column(heading, justify="right")
    total, spent = Line(), 0.0
    for name, line in steps.items():
        total.add(line.requests, line.prompt_tokens, line.completion_tokens)
        own = judge if name == _COMPARED else price
        cost = own.cost(line.prompt_tokens, line.completion_tokens) if own.is_known else None
        spent += cost or 0.0
        table.add_row(name, *_cells(line, cost))
    table.add_row("all", *_cells(total, spent if currency else None), style="bold")
    return table


def samples(run: Generation) -> list[tuple[Kind, Sequence[Mapping[str, Any]]]]:
    """Return the first request of each kind."""
    first: dict[Kind, Slot] = {}
    for slot in run.slots:
        first.setdefault(slot.kind, slot)
    return [(kind, run.messages(slot)) for kind, slot in first.items()]


def _cells(line: Line, cost: float | None) -> tuple[str, ...]:
    tokens = f"~{line.prompt_tokens:,}", f"~{line.completion_tokens:,}"
    return f"{line.requests:,}", *tokens, "-" if cost is None else f"{cost:,.4f}"


def _checks(run: Generation, slot: Slot) -> Iterator[tuple[str, int, Sequence[int]]]:
    """Yield the checks of a question: name, requests, and the pages that these show together."""
    filters, readable = run.config.filters, run.views.of(slot.doc_id).readable
    if filters.clear:
        yield "clear", 1, ()
    if slot.kind is Kind.UNANSWERABLE:
        if filters.unanswered:
            yield "unanswered", math.ceil(len(readable) / filters.window), readable
        return
    others = [page for page in readable if page not in slot.pages][: filters.elsewhere_pages]
    several = len(slot.pages)
    steps = (
        ("closed book", filters.closed_book, 1, ()),
        ("grounded", filters.grounded, 1, slot.pages),
        ("needed", filters.needed and several > 1, several, slot.pages * (several - 1)),
        ("elsewhere", filters.elsewhere and bool(others), 1, others),
    )
    for name, wanted, requests, shown in steps:
        if wanted:
            yield name, requests, shown
    if run.config.judge is JudgedBy.MODEL:
        yield _COMPARED, sum(requests for _, wanted, requests, _ in steps if wanted), ()

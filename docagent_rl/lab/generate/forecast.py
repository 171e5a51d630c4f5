"""A forecast of what a run would take, before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
_JUDGE = 420
_COMPARED = "compare answers"


@dataclass(slots=True)
class Line:
    """Requests of one step."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, prompt: int, completion: int, requests: int = 1) -> None:
        """Count requests with so many tokens each."""
        self.requests += requests
        self.prompt_tokens += requests * prompt
        self.completion_tokens += requests * completion


@dataclass(slots=True)
class Forecast:
    """Requests at most: a question that fails a check is examined no further."""

    steps: dict[str, Line] = field(default_factory=dict)
    """By name, in their order."""
    cached: int = 0
    """Requests for questions whose replies are there already."""

    @property
    def total(self) -> Line:
        """All steps together."""
        lines = [(line.requests, line.prompt_tokens, line.completion_tokens) for line in self.steps.values()]
        return Line(*map(sum, zip(*lines, strict=True)))

    def step(self, name: str) -> Line:
        """Return a step's line."""
        return self.steps.setdefault(name, Line())

    def table(self, price: Price | None, judge: Price | None = None) -> Table:
        """Return the table for the terminal.

        Args:
            price: of the model; steps of a model without one have no cost.
            judge: of the model that compares answers; both in one currency.
        """
        from rich.table import Table

        table = Table(title="What would be asked, at most")
        table.add_column("")
        for heading in ("requests", "tokens in", "tokens out", "cost"):
            table.add_column(heading, justify="right")
        prices = {name: judge if name == _COMPARED else price for name in self.steps}
        costs = {
            name: own.cost(self.steps[name].prompt_tokens, self.steps[name].completion_tokens)
            for name, own in prices.items()
            if own is not None
        }
        if costs:
            costs["all"] = sum(costs.values())
        currency = next((each.currency for each in (price, judge) if each is not None), "")
        for name, line in [*self.steps.items(), ("all", self.total)]:
            cost = f"{costs[name]:,.4f} {currency}" if name in costs else "-"
            tokens = f"~{line.prompt_tokens:,}", f"~{line.completion_tokens:,}"
            table.add_row(name, f"{line.requests:,}", *tokens, cost, style="bold" if name == "all" else "")
        return table


def forecast(run: Generation) -> Forecast:
    """Count what a run would ask. Reads pages and the cache, and sends nothing.

    Raises:
        UserError: a page cannot be read.
    """
    found, page_tokens = Forecast(), cache(run.views.tokens)

    def tokens(doc_id: str, pages: Sequence[int]) -> int:
        return sum(page_tokens(doc_id, page) for page in pages)

    for slot in run.slots:
        messages = run.messages(slot)
        found.step("write questions").add(message_tokens(messages), _QUESTION * slot.questions)
        found.cached += run.is_known(slot)
        checks = list(_checks(run, slot, tokens))
        for _ in range(slot.questions):
            for name, prompt, reply, requests in checks:
                found.step(name).add(prompt, reply, requests)
    return found


def samples(run: Generation) -> list[tuple[Kind, Sequence[Mapping[str, Any]]]]:
    """Return the first request of each kind."""
    first: dict[Kind, Slot] = {}
    for slot in run.slots:
        first.setdefault(slot.kind, slot)
    return [(kind, run.messages(slot)) for kind, slot in first.items()]


def _checks(
    run: Generation, slot: Slot, tokens: Callable[[str, Sequence[int]], int]
) -> Iterator[tuple[str, int, int, int]]:
    """Yield the checks of a question: name, tokens of prompt and reply, requests."""
    filters, readable = run.config.filters, run.views.of(slot.doc_id).readable
    if slot.kind is Kind.UNANSWERABLE:
        if filters.clear:
            yield "clear", _PROMPT, _VERDICT, 1
        if filters.unanswered:
            requests = math.ceil(len(readable) / filters.window)
            yield (
                "unanswered",
                _PROMPT + tokens(slot.doc_id, readable) // max(1, requests),
                _VERDICT,
                requests,
            )
        return
    evidence = tokens(slot.doc_id, slot.pages)
    others = [page for page in readable if page not in slot.pages][: filters.elsewhere_pages]
    several = len(slot.pages) > 1 and filters.needed
    steps = (
        ("closed book", filters.closed_book, 1, 0),
        ("clear", filters.clear, 1, 0),
        ("grounded", filters.grounded, 1, evidence),
        ("needed", several, len(slot.pages), evidence),
        ("elsewhere", filters.elsewhere and bool(others), 1, tokens(slot.doc_id, others)),
    )
    compared = 0
    for name, wanted, requests, shown in steps:
        if wanted:
            yield name, _PROMPT + shown, _VERDICT, requests
            compared += requests if name != "clear" else 0
    if run.config.judge is JudgedBy.MODEL:
        yield _COMPARED, _JUDGE, _VERDICT, compared

"""What a run would take, before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
"""Of a check without its pages."""
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
    """Requests at most: a question that fails a check is examined no further.

    Args:
        steps: by name, in their order.
        cached: requests for questions whose replies are there already.
    """

    steps: dict[str, Line] = field(default_factory=dict)
    cached: int = 0

    @property
    def total(self) -> Line:
        """Of all steps."""
        lines = self.steps.values()
        return Line(
            sum(line.requests for line in lines),
            sum(line.prompt_tokens for line in lines),
            sum(line.completion_tokens for line in lines),
        )

    def step(self, name: str) -> Line:
        """A step's line."""
        return self.steps.setdefault(name, Line())

    def cost(self, name: str, price: Price | None, judge: Price | None) -> float | None:
        """What a step takes; `None` where the model that does it has no price.

        Args:
            name: of the step.
            price: of the model.
            judge: of the model that compares answers.
        """
        own, line = (judge if name == _COMPARED else price), self.steps[name]
        return None if own is None else own.cost(line.prompt_tokens, line.completion_tokens)

    def table(self, price: Price | None, judge: Price | None = None) -> Table:
        """For the terminal.

        Args:
            price: of the model.
            judge: of the model that compares answers; both in one currency.
        """
        from rich.table import Table

        table = Table(title="What would be asked, at most")
        table.add_column("")
        for heading in ("requests", "tokens in", "tokens out", "cost"):
            table.add_column(heading, justify="right")
        costs = {name: self.cost(name, price, judge) for name in self.steps}
        known = [cost for cost in costs.values() if cost is not None]
        costs["all"] = sum(known) if known else None
        currency = next((each.currency for each in (price, judge) if each is not None), "")
        for name, line in [*self.steps.items(), ("all", self.total)]:
            cost = "-" if costs[name] is None else f"{costs[name]:,.4f} {currency}"
            tokens = f"~{line.prompt_tokens:,}", f"~{line.completion_tokens:,}"
            table.add_row(name, f"{line.requests:,}", *tokens, cost, style="bold" if name == "all" else "")
        return table


def forecast(run: Generation) -> Forecast:
    """What a run would ask. Reads pages and the cache, and sends nothing.

    Raises:
        UserError: a page cannot be read.
    """
    found, sizes = Forecast(), _Sizes(run)
    for slot in run.slots:
        messages = run.writer.messages(slot)
        found.step("write questions").add(message_tokens(messages), _QUESTION * slot.questions)
        found.cached += run.writer.is_known(slot)
        for _ in range(slot.questions):
            _checks(found, run, slot, sizes)
    return found


def samples(run: Generation) -> list[tuple[Kind, Sequence[Mapping[str, Any]]]]:
    """The first request of each kind."""
    first: dict[Kind, Slot] = {}
    for slot in run.slots:
        first.setdefault(slot.kind, slot)
    return [(kind, run.writer.messages(slot)) for kind, slot in first.items()]


class _Sizes:
    """Tokens of pages."""

    def __init__(self, run: Generation) -> None:
        self._views = run.views
        self._known: dict[tuple[str, int], int] = {}

    def of(self, doc_id: str, pages: Sequence[int]) -> int:
        """Of some pages together."""
        for page in pages:
            if (doc_id, page) not in self._known:
                self._known[doc_id, page] = self._views.tokens(doc_id, page)
        return sum(self._known[doc_id, page] for page in pages)


def _checks(found: Forecast, run: Generation, slot: Slot, sizes: _Sizes) -> None:
    filters, known = run.config.filters, run.views.of(slot.doc_id)
    compared = []
    if slot.kind is Kind.UNANSWERABLE:
        if filters.clear:
            found.step("clear").add(_PROMPT, _VERDICT)
        if filters.unanswered:
            requests = math.ceil(len(known.readable) / filters.window)
            pages = sizes.of(slot.doc_id, known.readable) // max(1, requests)
            found.step("unanswered").add(_PROMPT + pages, _VERDICT, requests)
        return
    evidence = sizes.of(slot.doc_id, slot.pages)
    others = [page for page in known.readable if page not in slot.pages][: filters.elsewhere_pages]
    several = len(slot.pages) > 1 and filters.needed
    steps = (
        ("closed book", filters.closed_book, 1, 0),
        ("clear", filters.clear, 1, 0),
        ("grounded", filters.grounded, 1, evidence),
        ("needed", several, len(slot.pages), evidence),
        ("elsewhere", filters.elsewhere and bool(others), 1, sizes.of(slot.doc_id, others)),
    )
    for name, wanted, requests, tokens in steps:
        if wanted:
            found.step(name).add(_PROMPT + tokens, _VERDICT, requests)
            compared += [name] * requests if name != "clear" else []
    if run.config.judge is JudgedBy.MODEL:
        found.step(_COMPARED).add(_JUDGE, _VERDICT, len(compared))

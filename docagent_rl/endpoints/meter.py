"""Requests to the models of a command: counted by model, and kept within a budget."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.endpoint import Price
from docagent_rl.endpoints.usage import Usage

if TYPE_CHECKING:
    from rich.table import Table

_POLL_S = 0.05
_ROUNDING = 1e-9


class BudgetError(UserError):
    """The next request would pass the budget; results so far are kept."""

    def leaving(self, left: str) -> BudgetError:
        """Return the same error with the work that is left undone."""
        return BudgetError(f"{self}. Left undone: {left}")


class Amount(NamedTuple):
    """Money, tokens (sent and sampled, together) and requests."""

    cost: float = 0.0
    tokens: float = 0
    requests: float = 0


@dataclass(slots=True)
class Account:
    """The requests to one model; without a price no cost."""

    requests: int = 0
    cached: int = 0
    """Replies from the cache, which cost nothing."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None


class Meter:
    """Counts requests to models, and keeps limits (on cost, tokens, requests) before one is sent.

    A request reserves what it may cost at most and is charged what it did cost. One that would pass
    a limit together with requests in flight waits for them; one that would pass it anyway is
    refused. Threads and event loops may share a meter.
    """

    def __init__(
        self,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        max_requests: int | None = None,
    ) -> None:
        limits = (max_cost, max_tokens, max_requests)
        self._limits = Amount(*(math.inf if limit is None else limit for limit in limits))
        self._reserved: list[Amount] = []
        self._accounts: dict[str, Account] = {}
        self._lock = threading.RLock()

    @property
    def spent(self) -> Amount:
        """The sum of all accounts."""
        return _sum(
            Amount(each.cost or 0.0, each.prompt_tokens + each.completion_tokens, each.requests)
            for each in self.accounts.values()
        )

    @property
    def accounts(self) -> Mapping[str, Account]:
        """Accounts by model, in alphabetical order."""
        with self._lock:
            return {model: replace(account) for model, account in sorted(self._accounts.items())}

    def words(self) -> str:
        """Return the sum of all charges in words."""
        spent = self.spent
        words = f"{spent.requests:,} requests, {spent.tokens:,} tokens"
        if spent.cost or self._limits.cost < math.inf:
            words += f", a cost of {spent.cost:,.6g}"
        return words

    def table(self) -> Table:
        """Return the accounts as a table for the terminal."""
        from rich.table import Table

        from docagent_rl.base.text import shown

        table = Table(title="Models asked")
        table.add_column("model")
        for heading in ("requests", "from cache", "tokens in", "tokens out", "cost"):
            table.add_column(heading, justify="right")
        for model, each in self.accounts.items():
            counts = (each.requests, each.cached, each.prompt_tokens, each.completion_tokens)
            cost = "-" if each.cost is None else f"{each.cost:,.4f}"
            table.add_row(shown(model), *(f"{count:,}" for count in counts), cost)
        return table

    def count(self, model: str, **counts: int) -> None:
        """Add to the fields of a model's account."""
        with self._lock:
            account = self._accounts.setdefault(model, Account())
            for name, count in counts.items():
                setattr(account, name, getattr(account, name) + count)

    @asynccontextmanager
    async def request(
        self, model: str, price: Price, sent: int, sampled: int
    ) -> AsyncGenerator[Callable[[Usage], None]]:
        """Count a request of about `sent` and at most `sampled` tokens, and hold room for it in the
        block.

        Gives what charges its tokens.

        Raises:
            BudgetError: there is no room, nor will there be when the requests in flight are done.
        """
        room = Amount(price.cost(sent, sampled), sent + sampled, 1)
        held = room._replace(requests=0)
        while not self._take(model, room, held):
            await asyncio.sleep(_POLL_S)
        try:
            yield lambda usage: self._pay(model, price, usage)
        finally:
            with self._lock:
                self._reserved.remove(held)

    def _take(self, model: str, room: Amount, held: Amount) -> bool:
        """Count a request and hold its tokens and money, if there is room beside those in
        flight.
        """
        with self._lock:
            after = _sum((self.spent, room))
            if name := self._passed(after):
                asked = getattr(room, name)
                limit = getattr(self._limits, name)
                raise BudgetError(
                    f"the budget is used up: {self.words()} so far, and the next request may take "
                    f"{asked:,.6g} and pass the {limit:,.6g} of --max-{name}. What was paid for is "
                    "kept: the "
                    "same command goes on from here"
                )
            if self._passed(_sum((after, *self._reserved))):
                return False
            self._reserved.append(held)
            self.count(model, requests=1)
            return True

    def _passed(self, amount: Amount) -> str | None:
        """Return the limit that the amount passes; sums of prices are rounded."""
        each = zip(Amount._fields, amount, self._limits, strict=True)
        return next((name for name, much, most in each if much > most * (1 + _ROUNDING)), None)

    def _pay(self, model: str, price: Price, usage: Usage) -> None:
        with self._lock:
            self.count(model, **asdict(usage))
            if price.is_known:
                account = self._accounts[model]
                cost = price.cost(usage.prompt_tokens, usage.completion_tokens)
                account.cost = (account.cost or 0.0) + cost


def _sum(amounts: Iterable[Amount]) -> Amount:
    return Amount(*map(sum, zip(Amount(), *amounts, strict=True)))


_current: ContextVar[Meter | None] = ContextVar("docagent_meter", default=None)


@contextmanager
def metering(meter: Meter) -> Generator[None]:
    """Charge everything that the block asks: the models that it opens, and the judge and the roles
    of environments, which it does not see.
    """
    token = _current.set(meter)
    try:
        yield
    finally:
        _current.reset(token)


def current_meter() -> Meter | None:
    """Return the meter of the block of `metering` around the caller; `None` outside of one."""
    return _current.get()

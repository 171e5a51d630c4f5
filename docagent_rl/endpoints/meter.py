"""Requests to the models of a command: counted by model, and kept within a budget."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.endpoint import Price
from docagent_rl.endpoints.usage import Usage

if TYPE_CHECKING:
    from rich.table import Table

_POLL_S = 0.05
_ROUNDING = 1e-9


class BudgetError(UserError):
    """The next request would pass the budget; results so far are kept.

    The words of the message: the sum `spent`, the `limit` that the next request would pass, the `key` of that
    limit as an option, and the work `left` undone.
    """

    def __init__(self, spent: str, limit: str, key: str, left: str = "") -> None:
        undone = f" Left undone: {left}." if left else ""
        super().__init__(
            f"the budget is used up: {spent} so far, and the next request {limit}.{undone} What was paid for "
            f"is kept: the same command goes on from here, at best with a larger {key}"
        )
        self._parts = (spent, limit, key)

    def leaving(self, left: str, spent: str | None = None) -> BudgetError:
        """Return the same error, with the work that is left and the sum spent when all requests had ended."""
        return BudgetError(spent or self._parts[0], *self._parts[1:], left)


@dataclass(frozen=True, slots=True)
class Amount:
    """Requests, tokens (sent and sampled, together) and money."""

    requests: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.requests + other.requests, self.tokens + other.tokens, self.cost + other.cost)


@dataclass(slots=True)
class Account:
    """The requests to one model; without a price no cost."""

    requests: int = 0
    failed: int = 0
    """Requests without a reply that could be used."""
    cached: int = 0
    """Replies from the cache, which cost nothing."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: int = 0
    """Requests whose tokens the server did not report."""
    cost: float | None = None
    currency: str = ""


class Meter:
    """Counts requests to models, and keeps limits (on cost in `currency`, tokens, requests) before one is
    sent.

    A request reserves what it may cost at most and is charged what it did cost. One that would pass a limit
    together with requests in flight waits for them; one that would pass it anyway is refused. Threads and
    event loops may share a meter.

    Raises:
        UserError: a limit is negative or not finite.
    """

    def __init__(
        self,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        max_requests: int | None = None,
        currency: str = "USD",
    ) -> None:
        self._limits = {"cost": max_cost, "tokens": max_tokens, "requests": max_requests}
        for name, limit in self._limits.items():
            if limit is not None and not (limit >= 0 and math.isfinite(limit)):
                raise UserError(f"max_{name} must be a number from 0 on, found {limit}")
        self.currency = currency
        self._reserved: list[Amount] = []
        self._accounts: dict[str, Account] = {}
        self._lock = threading.RLock()

    @property
    def spent(self) -> Amount:
        """The sum of all accounts."""
        amounts = (
            Amount(each.requests, each.prompt_tokens + each.completion_tokens, each.cost or 0.0)
            for each in self.accounts.values()
        )
        return sum(amounts, Amount())

    @property
    def accounts(self) -> Mapping[str, Account]:
        """Accounts by model, in alphabetical order."""
        with self._lock:
            return {model: replace(account) for model, account in sorted(self._accounts.items())}

    def words(self) -> str:
        """Return the sum of all charges in words."""
        spent = self.spent
        words = f"{spent.requests:,} requests, {spent.tokens:,} tokens"
        if spent.cost or self._limits["cost"] is not None:
            words += f", {spent.cost:,.6g} {self.currency}"
        return words

    def table(self) -> Table:
        """Return the accounts as a table for the terminal."""
        from rich.table import Table

        from docagent_rl.base.terminal import shown

        table = Table(title="Models asked")
        table.add_column("model")
        for heading in ("requests", "failed", "from cache", "tokens in", "tokens out", "cost"):
            table.add_column(heading, justify="right")
        for model, account in self.accounts.items():
            about = "~" if account.estimated else ""
            counts = (account.requests, account.failed, account.cached)
            tokens = (account.prompt_tokens, account.completion_tokens)
            cost = "-" if account.cost is None else f"{about}{account.cost:,.4f} {account.currency}"
            cells = (*(f"{count:,}" for count in counts), *(f"{about}{count:,}" for count in tokens))
            table.add_row(shown(model), *cells, shown(cost))
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
        """Count a request of about `sent` and at most `sampled` tokens, and hold room for it in the block.

        Gives what charges its tokens. A block that raises is that of a request without a usable reply.

        Raises:
            BudgetError: there is no room, nor will there be when the requests in flight are done.
        """
        room = Amount(1, sent + sampled, price.cost(sent, sampled))
        held = replace(room, requests=0)
        while not self._take(model, room, held):
            await asyncio.sleep(_POLL_S)
        try:
            yield lambda usage: self._pay(model, price, usage)
        except BaseException:  # one that was cancelled, too
            self.count(model, failed=1)
            raise
        finally:
            with self._lock:
                self._reserved.remove(held)

    def _take(self, model: str, room: Amount, held: Amount) -> bool:
        """Count a request and hold its tokens and money, if there is room beside those in flight."""
        with self._lock:
            after = self.spent + room
            if name := self._passed(after):
                unit = self.currency if name == "cost" else name
                takes = f"may take {getattr(room, name):,.6g} {unit}"
                limit = f"{takes} and pass the {self._limits[name]:,.6g} that are allowed"
                raise BudgetError(self.words(), limit, f"--max-{name}")
            if self._passed(sum(self._reserved, after)):
                return False
            self._reserved.append(held)
            self.count(model, requests=1)
            return True

    def _passed(self, amount: Amount) -> str | None:
        """Return the limit that the amount passes; sums of prices are rounded."""
        for name, limit in self._limits.items():
            if limit is not None and getattr(amount, name) > limit * (1 + _ROUNDING):
                return name
        return None

    def _pay(self, model: str, price: Price, usage: Usage) -> None:
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        with self._lock:
            tokens = {"prompt_tokens": prompt, "completion_tokens": completion}
            self.count(model, **tokens, estimated=int(usage.estimated))
            if price.is_known:
                account = self._accounts[model]
                account.cost = (account.cost or 0.0) + price.cost(prompt, completion)
                account.currency = price.currency


_current: ContextVar[Meter | None] = ContextVar("docagent_meter", default=None)


@contextmanager
def metering(meter: Meter) -> Generator[None]:
    """Charge everything that the block asks: the models that it opens, and the judge and the roles of
    environments, which it does not see.
    """
    token = _current.set(meter)
    try:
        yield
    finally:
        _current.reset(token)


def current_meter() -> Meter | None:
    """Return the meter of the block of `metering` around the caller; `None` outside of one."""
    return _current.get()

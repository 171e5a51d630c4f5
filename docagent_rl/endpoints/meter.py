"""Requests to the models of a command: counted by model, and kept within a budget."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
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
        self._spent = Amount()
        self._reserved: list[Amount] = []
        self._accounts: dict[str, Account] = {}
        self._lock = threading.RLock()

    @property
    def spent(self) -> Amount:
        """The sum of all charges."""
        with self._lock:
            return self._spent

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
    async def reply(
        self, model: str, price: Price | None, sent: int, sampled: int
    ) -> AsyncGenerator[ReplyMeter]:
        """Hold room for the first request of a reply, of about `sent` and at most `sampled` tokens, in the
        block.

        Raises:
            BudgetError: there is no room, nor will there be when the requests in flight are done.
        """
        room = Amount(1, sent + sampled, price.cost(sent, sampled) if price else 0.0)
        while True:
            self.require(room)
            with self._lock:
                if not self._passed(sum(self._reserved, self._spent + room)):
                    self._reserved.append(room)
                    break
            await asyncio.sleep(_POLL_S)
        try:
            yield ReplyMeter(self, model, price, room)
        finally:
            with self._lock:
                self._reserved.remove(room)

    def require(self, room: Amount) -> None:
        """Check that there is room, reservations aside.

        Raises:
            BudgetError: there is none.
        """
        if name := self._passed(self.spent + room):
            unit = self.currency if name == "cost" else name
            takes = f"may take {getattr(room, name):,.6g} {unit}"
            limit = f"{takes} and pass the {self._limits[name]:,.6g} that are allowed"
            raise BudgetError(self.words(), limit, f"--max-{name}")

    def _passed(self, amount: Amount) -> str | None:
        """Return the limit that the amount passes; sums of prices are rounded."""
        for name, limit in self._limits.items():
            if limit is not None and getattr(amount, name) > limit * (1 + _ROUNDING):
                return name
        return None

    def charge(self, amount: Amount) -> None:
        """Add to the sum."""
        with self._lock:
            self._spent += amount

    def pay(self, model: str, price: Price | None, usage: Usage) -> None:
        """Count and charge a request's tokens, and what they cost."""
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        cost = price.cost(prompt, completion) if price else 0.0
        with self._lock:
            estimated = int(usage.estimated)
            self.count(model, prompt_tokens=prompt, completion_tokens=completion, estimated=estimated)
            if price is not None:
                account = self._accounts[model]
                account.cost, account.currency = (account.cost or 0.0) + cost, price.currency
        self.charge(Amount(0, prompt + completion, cost))


class ReplyMeter:
    """Charges the requests of one reply; the first has its room reserved. One task uses it."""

    def __init__(self, meter: Meter, model: str, price: Price | None, room: Amount) -> None:
        self._meter, self._model, self._price, self._room = meter, model, price, room
        self._first = True

    def sending(self) -> None:
        """Charge a request that is about to be sent.

        Raises:
            BudgetError: there is no room for another attempt.
        """
        if not self._first:
            self._meter.require(self._room)
        self._first = False
        self._meter.charge(Amount(requests=1))
        self._meter.count(self._model, requests=1)

    def used(self, usage: Usage) -> None:
        """Charge a request's tokens, whether or not its reply can be used."""
        self._meter.pay(self._model, self._price, usage)

    def failed(self) -> None:
        """Count a request that brought no reply that can be used."""
        self._meter.count(self._model, failed=1)


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

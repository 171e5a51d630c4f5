"""A meter that counts the requests of a command by model and keeps them within a budget."""

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
    """The next request could exceed the budget; results so far are kept."""

    def leaving(self, left: str) -> BudgetError:
        """Return the same error with a message about the work that is left undone."""
        return BudgetError(f"{self}. Left undone: {left}")


class Amount(NamedTuple):
    """An amount of money, tokens (sent and sampled together) and requests."""

    cost: float = 0.0
    tokens: float = 0
    requests: float = 0


@dataclass(slots=True)
class Account:
    """The requests to one model."""

    requests: int = 0
    cached: int = 0
    """Number of replies from the cache, which cost nothing."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """None if the price is unknown."""


class Meter:
    """A counter of requests to models that enforces limits on cost, tokens and requests.

    A request reserves its maximum amount before it is sent, and is charged the actual amount
    afterwards. A request that would exceed a limit only together with those in flight waits for
    them; one that would exceed it in any case is refused. Threads and event loops may share a
    meter.
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
        """Return the sum of all accounts as text."""
        spent = self.spent
        words = f"{spent.requests:,} requests, {spent.tokens:,} tokens"
        if spent.cost or self._limits.cost < math.inf:
            words += f", a cost of {spent.cost:,.6g}"
        return words

    def table(self) -> Table:
        """Return the accounts as a table for the terminal."""
        from rich.table import Table

        from docagent_rl.base.text import shown

        table = Table(title="Requests to models")
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
        """Count a request of about `sent` and at most `sampled` tokens, reserved during the block.

        Yields a function that charges the tokens that were actually used.

        Raises:
            BudgetError: The request would exceed a limit, even after those in flight have ended.
        """
        most = Amount(price.cost(sent, sampled), sent + sampled, 1)
        # the request itself is counted at once, so only money and tokens are reserved
        reserved = most._replace(requests=0)
        while not self._reserve(model, most, reserved):
            await asyncio.sleep(_POLL_S)
        try:
            yield lambda usage: self._charge(model, price, usage)
        finally:
            with self._lock:
                self._reserved.remove(reserved)

    def _reserve(self, model: str, most: Amount, reserved: Amount) -> bool:
        """Count a request and reserve its money and tokens, unless those in flight prevent it."""
        with self._lock:
            after = _sum((self.spent, most))
            if name := self._exceeded(after):
                needed = getattr(most, name)
                limit = getattr(self._limits, name)
                raise BudgetError(
                    f"the budget is used up: {self.words()} so far, and the next request may take "
                    f"{needed:,.6g} and exceed the {limit:,.6g} of --max-{name}. Replies that were "
                    "paid for are kept: run the same command again to resume"
                )
            if self._exceeded(_sum((after, *self._reserved))):
                return False
            self._reserved.append(reserved)
            self.count(model, requests=1)
            return True

    def _exceeded(self, amount: Amount) -> str | None:
        """Return the name of a limit that the amount exceeds, tolerating rounding of sums."""
        each = zip(Amount._fields, amount, self._limits, strict=True)
        return next((name for name, much, most in each if much > most * (1 + _ROUNDING)), None)

    def _charge(self, model: str, price: Price, usage: Usage) -> None:
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
    """Charge to `meter` all requests of the block, also those of environments' judges and roles."""
    token = _current.set(meter)
    try:
        yield
    finally:
        _current.reset(token)


def current_meter() -> Meter | None:
    """Return the meter of the `metering` block around the caller, or None outside of one."""
    return _current.get()

"""What a command may spend on models."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from docagent_rl.base import errors
from docagent_rl.base.errors import UserError

_POLL_S = 0.05
_ROUNDING = 1e-9


class BudgetError(errors.BudgetError):
    """The next request would pass the budget.

    Args:
        spent: what was spent, in words.
        limit: what the next request may take and which limit it would pass, in words.
        key: the name of the limit as an option.
        left: what is not done, in words.
    """

    def __init__(self, spent: str, limit: str, key: str, left: str = "") -> None:
        undone = f" Left undone: {left}." if left else ""
        super().__init__(
            f"the budget is used up: {spent} so far, and the next request {limit}.{undone} What was paid for "
            f"is kept: the same command goes on from here, at best with a larger {key}"
        )
        self._parts = (spent, limit, key)

    def leaving(self, left: str, spent: str | None = None) -> BudgetError:
        """The same error, which says what is not done, and what was spent when all requests had ended."""
        return BudgetError(spent or self._parts[0], *self._parts[1:], left)


@dataclass(frozen=True, slots=True)
class Amount:
    """Requests, tokens and money.

    Args:
        requests: sent.
        tokens: sent and sampled.
        cost: in the currency of the budget.
    """

    requests: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.requests + other.requests, self.tokens + other.tokens, self.cost + other.cost)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.requests - other.requests, self.tokens - other.tokens, self.cost - other.cost)

    def within(self, other: Amount) -> Amount:
        """The part of it that another amount has room for."""
        return Amount(
            min(self.requests, other.requests), min(self.tokens, other.tokens), min(self.cost, other.cost)
        )


class Reservation:
    """Room for a request. One task charges it."""

    def __init__(self, budget: Budget, room: Amount) -> None:
        self._budget = budget
        self.rest = room

    def charge(self, amount: Amount) -> None:
        """Count what was spent; it takes the place of what was reserved for it."""
        freed = amount.within(self.rest)
        self.rest -= freed
        self._budget._settle(amount, freed)


class Budget:
    """Limits of what may be spent, kept before a request is sent. Threads and event loops may share one.

    A request reserves what it may cost at most and is charged what it did cost. One that would pass a limit
    together with requests in flight waits for them; one that would pass it anyway is refused.

    Args:
        max_cost: in `currency`.
        max_tokens: sent and sampled, together.
        max_requests: sent, those that failed included.
        currency: for messages.

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
        self._reserved = Amount()
        self._lock = threading.Lock()

    @property
    def spent(self) -> Amount:
        """What was charged so far."""
        with self._lock:
            return self._spent

    def charge(self, amount: Amount) -> None:
        """Count what was spent, whatever the limits are."""
        with self._lock:
            self._spent += amount

    @asynccontextmanager
    async def reserved(self, estimate: Amount) -> AsyncGenerator[Reservation]:
        """Hold room for a request while the block lasts; what it did cost is charged to the reservation.

        Raises:
            BudgetError: there is no room, nor will there be when the requests in flight are done.
        """
        while not self._reserve(estimate):
            await asyncio.sleep(_POLL_S)
        held = Reservation(self, estimate)
        try:
            yield held
        finally:
            self._settle(Amount(), held.rest)

    def require(self, estimate: Amount) -> None:
        """See that there is room, reservations aside.

        Raises:
            BudgetError: there is none.
        """
        with self._lock:
            self._require(estimate)

    def words(self) -> str:
        """What was spent, for messages."""
        with self._lock:
            return self._words(self._spent)

    def _settle(self, spent: Amount, freed: Amount) -> None:
        with self._lock:
            self._spent += spent
            self._reserved -= freed

    def _reserve(self, estimate: Amount) -> bool:
        with self._lock:
            self._require(estimate)
            if self._passed(self._spent + self._reserved + estimate):
                return False
            self._reserved += estimate
            return True

    def _require(self, estimate: Amount) -> None:
        if name := self._passed(self._spent + estimate):
            takes, limit = getattr(estimate, name), self._limits[name]
            unit = self.currency if name == "cost" else name
            words = f"may take {takes:,.6g} {unit} and pass the {limit:,.6g} that are allowed"
            raise BudgetError(self._words(self._spent), words, f"--max-{name}")

    def _passed(self, amount: Amount) -> str | None:
        """The limit that the amount passes."""
        for name, limit in self._limits.items():
            # sums of prices are rounded
            if limit is not None and getattr(amount, name) > limit * (1 + _ROUNDING):
                return name
        return None

    def _words(self, amount: Amount) -> str:
        words = f"{amount.requests:,} requests, {amount.tokens:,} tokens"
        if amount.cost or self._limits["cost"] is not None:
            words += f", {amount.cost:,.6g} {self.currency}"
        return words

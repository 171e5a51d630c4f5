"""Requests that are charged to a budget and a tally."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from docagent_rl.endpoints.budget import Amount, Budget, Reservation
from docagent_rl.endpoints.ledger import Ledger
from docagent_rl.endpoints.price import Price
from docagent_rl.endpoints.usage import Usage


@dataclass(frozen=True, slots=True)
class Payer:
    """Who pays for requests to a model.

    Args:
        model: its name, in the tally.
        budget: kept before every request; may be shared.
        ledger: where requests are tallied; may be shared.
        price: of the model's tokens; none is not counted in money.
    """

    model: str
    budget: Budget
    ledger: Ledger
    price: Price | None = None

    def estimate(self, sent: int, most: int) -> Amount:
        """What one request may take at most.

        Args:
            sent: tokens of its messages, about.
            most: the greatest length of its reply.
        """
        return Amount(1, sent + most, self._cost(sent, most))

    @asynccontextmanager
    async def metered(self, estimate: Amount) -> AsyncGenerator[RequestMeter]:
        """The meter of one reply, for whose first request there is room while the block lasts.

        Raises:
            BudgetError: there is no room, nor will there be when the requests in flight are done.
        """
        async with self.budget.reserved(estimate) as room:
            yield RequestMeter(self, estimate, room)

    def _cost(self, sent: int, sampled: int) -> float:
        return self.price.of_tokens(sent, sampled) if self.price else 0.0


class RequestMeter:
    """Charges the requests of one reply (`chat_client.Meter`); the first has its room reserved."""

    def __init__(self, payer: Payer, estimate: Amount, room: Reservation) -> None:
        self._payer = payer
        self._room = room
        self._estimate = estimate
        self._first = True

    def sending(self) -> None:
        """See `Meter`.

        Raises:
            BudgetError: there is no room for another attempt.
        """
        if not self._first:
            self._payer.budget.require(self._estimate)
        self._first = False
        self._room.charge(Amount(requests=1))
        self._payer.ledger.sent(self._payer.model)

    def used(self, usage: Usage) -> None:
        """See `Meter`."""
        payer, tokens = self._payer, (usage.prompt_tokens, usage.completion_tokens)
        self._room.charge(Amount(0, sum(tokens), payer._cost(*tokens)))
        payer.ledger.used(payer.model, usage, payer.price)

    def failed(self) -> None:
        """See `Meter`."""
        self._payer.ledger.failed(self._payer.model)


_charged: ContextVar[tuple[Budget, Ledger] | None] = ContextVar("docagent_charged", default=None)


@contextmanager
def charging(budget: Budget, ledger: Ledger) -> Generator[None]:
    """Charge everything that the code of this block asks: the models that it opens, and the judge and the
    roles of environments, which it does not see.
    """
    token = _charged.set((budget, ledger))
    try:
        yield
    finally:
        _charged.reset(token)


def charged() -> tuple[Budget, Ledger] | None:
    """What the block of `charging` around the caller charges; `None` outside of one."""
    return _charged.get()


def payer_of(model: str, price: Price | None) -> Payer | None:
    """Who pays for a model that nobody else meters; `None` outside of `charging`."""
    found = charged()
    return None if found is None else Payer(model, *found, price)

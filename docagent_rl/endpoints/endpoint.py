"""The section of a model behind an OpenAI-compatible endpoint, its price, and how a reply is sampled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from pydantic import Field, model_validator

from docagent_rl.base.section import Section


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a served model, in any one currency.

    Args:
        input: of a million tokens sent.
        output: of a million tokens sampled.
        cached: of a million tokens that an earlier request of the trajectory has sent; `None` is as `input`.
        currency: its name, for tables and messages.

    Raises:
        ValueError: a price is negative or not finite.
    """

    input: float
    output: float
    cached: float | None = None
    currency: str = "USD"

    def __post_init__(self) -> None:
        prices = (self.input, self.output, 0.0 if self.cached is None else self.cached)
        if not all(price >= 0 and math.isfinite(price) for price in prices):
            raise ValueError(f"prices must be finite and not negative, found {prices}")

    def cost(self, sent: int, sampled: int, fresh: int | None = None) -> float:
        """Return the cost of tokens sent and sampled; of those sent, `fresh` were never sent before."""
        fresh = sent if fresh is None else min(fresh, sent)
        again = self.input if self.cached is None else self.cached
        return (fresh * self.input + (sent - fresh) * again + sampled * self.output) / 1e6


class PriceConfig(Section):
    """Prices of a million tokens each."""

    input: float | None = Field(None, ge=0, allow_inf_nan=False)
    output: float | None = Field(None, ge=0, allow_inf_nan=False)
    currency: str = "USD"

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.input is None) != (self.output is None):
            raise ValueError("give both prices, input and output (--price-in, --price-out)")
        return self

    @property
    def price(self) -> Price | None:
        """The price; `None` where none is given."""
        if self.input is None or self.output is None:
            return None
        return Price(self.input, self.output, currency=self.currency)


class Endpoint(Section):
    """The address of a model, and the patience of who asks."""

    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; `null` for servers that ask for none."""
    timeout_s: float = Field(60.0, gt=0)
    """Seconds for one request."""
    attempts: int = Field(3, ge=1)
    backoff_s: float = Field(1.0, ge=0)
    """Seconds before the second attempt; doubles."""
    deadline_s: float = Field(300.0, gt=0)
    """Seconds for one reply from its first request, all attempts included; waiting for a place is not."""
    check_s: float = Field(10.0, gt=0)
    """Seconds for a sign of life before the run; a model that thinks may need more."""
    concurrency: int = Field(16, ge=1, le=1000)
    """Requests in flight at most, for every worker; a client opens up to 1,000 connections."""
    max_tokens: int = Field(512, ge=1)
    """Length of a reply, thoughts included; one that reaches it is a failure."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request, e.g. `{chat_template_kwargs: {enable_thinking: false}}`."""

    price: PriceConfig = PriceConfig()
    """What it costs, for commands with a budget; a run of the trainer keeps none."""

    @property
    def named(self) -> bool:
        """Whether it says where to ask whom."""
        return bool(self.base_url and self.model)


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling of one reply; `None` leaves a field to the endpoint's settings.

    Args:
        temperature: 0 is greedy.
        top_p: share of the probability that is sampled from.
        max_tokens: length of the reply.
        seed: sent to the server, for those that know it.
        response_format: of the protocol, for servers that let through JSON alone.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    response_format: Mapping[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields that are set, as the protocol names them."""
        return {name: value for name, value in asdict(self).items() if value is not None}

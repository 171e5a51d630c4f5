"""What a served model costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


class Used(Protocol):
    """Tokens of a session or of some requests."""

    @property
    def sent_tokens(self) -> int:
        """Of all requests together: every turn sends its whole context again."""
        ...

    @property
    def fresh_tokens(self) -> int:
        """Those of them that no request had sent before."""
        ...

    @property
    def output_tokens(self) -> int:
        """Sampled."""
        ...


@dataclass(frozen=True, slots=True)
class Price:
    """What a served model costs, in any one currency.

    Args:
        input: a million tokens sent.
        output: a million tokens sampled.
        cached: a million tokens that an earlier request of the session has sent; `None` is as `input`.
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

    def of(self, use: Used) -> float:
        """The cost of a session."""
        fresh = min(use.fresh_tokens, use.sent_tokens)
        again = self.input if self.cached is None else self.cached
        sent = fresh * self.input + (use.sent_tokens - fresh) * again
        return (sent + use.output_tokens * self.output) / 1e6

    def of_tokens(self, sent: int, sampled: int) -> float:
        """The cost of tokens sent and sampled."""
        return (sent * self.input + sampled * self.output) / 1e6

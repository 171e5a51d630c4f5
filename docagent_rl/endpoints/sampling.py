"""How one reply is sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a request asks for beside its messages; `None` leaves it to the endpoint's settings.

    Args:
        temperature: of the sampling; 0 is greedy.
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
        """What is set, as the protocol names it."""
        return {name: value for name, value in asdict(self).items() if value is not None}

"""The sections of models behind OpenAI-compatible endpoints, their prices, and the sampling of a
reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, filled, read_yaml, validated


class Price(Section):
    """The price of a million tokens of a served model, in any one currency; `null` where nobody
    knows it.
    """

    input: float | None = Field(None, ge=0, allow_inf_nan=False)
    output: float | None = Field(None, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.input is None) != (self.output is None):
            raise ValueError("give both prices, input and output (--price-in, --price-out)")
        return self

    @property
    def is_known(self) -> bool:
        """The prices are given."""
        return self.input is not None

    def cost(self, sent: int, sampled: int) -> float:
        """Return the cost of tokens sent and sampled; 0 where the price is not known."""
        return (sent * (self.input or 0.0) + sampled * (self.output or 0.0)) / 1e6


class Endpoint(Section):
    """The address of a model, and the patience of its client."""

    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; `null` for servers that ask for none."""
    timeout_s: float = Field(60.0, gt=0)
    """Seconds for one request."""
    attempts: int = Field(3, ge=1)
    backoff_s: float = Field(1.0, ge=0)
    """Seconds before the second attempt; doubles."""
    deadline_s: float | None = Field(None, gt=0)
    """Seconds for one reply from its first request, all attempts included; waiting for a place is
    not. With `null` 300, or what all attempts may take.
    """
    concurrency: int = Field(16, ge=1, le=1000)
    """Requests in flight at most, for every worker; a client opens up to 1,000 connections."""
    max_tokens: int = Field(512, ge=1)
    """Length of a reply, thoughts included; one that reaches it is a failure."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request, e.g. `{chat_template_kwargs: {enable_thinking: false}}`.
    Where `max_completion_tokens` is among them, whatever its value, `max_tokens` is sent under that
    name; a `temperature` among them takes the place of any other. Models that think often need
    both.
    """

    price: Price = Price()
    """Its price, for commands with a budget; a run of the trainer keeps none."""

    @property
    def patience_s(self) -> float:
        """Seconds for one reply."""
        return self.deadline_s or max(300.0, self.attempts * self.timeout_s)

    @property
    def named(self) -> bool:
        """Both address and model are given."""
        return bool(self.base_url and self.model)


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling of one reply; `None` leaves a field to the endpoint's settings."""

    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    """Sent to the server, for those that know it."""
    response_format: Mapping[str, Any] | None = None
    """A field of the protocol, for servers that let through JSON alone."""

    def fields(self) -> dict[str, Any]:
        """Return the fields that are set, as the protocol names them."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class BudgetConfig(Section):
    """The limits of one run of a command; `null` is without limit."""

    max_cost: float | None = Field(None, ge=0, allow_inf_nan=False)
    max_tokens: int | None = Field(None, ge=0)
    """Sent and sampled, together."""
    max_requests: int | None = Field(None, ge=0)


class ModelConfig(Endpoint):
    """A model behind an OpenAI-compatible endpoint, as commands name it: options, or a YAML
    file.
    """

    max_tokens: int = Field(2048, ge=1)
    """Length of a reply, thoughts included; one that reaches it does not count."""
    temperature: float = Field(0.0, ge=0, allow_inf_nan=False)
    budget: BudgetConfig = BudgetConfig()
    cache_dir: Path | None = None
    """Folder in which replies are kept; `null` leaves it to the command."""

    @model_validator(mode="after")
    def _priced(self) -> Self:
        if self.budget.max_cost is not None and not self.price.is_known:
            raise ValueError(
                "a greatest cost needs prices (--max-cost with --price-in and --price-out)"
            )
        return self

    @classmethod
    def load(cls, file: Path | None, options: Mapping[str, Any]) -> ModelConfig:
        """Return a YAML file's keys with options over them.

        Options are nested as in the file; `None` counts as left out.

        Raises:
            UserError: the file is no YAML mapping, or a key is unknown or wrong; the message names
                it.
        """
        written = {} if file is None else read_yaml(file, "base_url: http://127.0.0.1:8000/v1")
        return validated(cls, filled(written, options), "the model" if file is None else str(file))

    def require(self, what: str) -> None:
        """Check that it names an address and a model; else raise a `UserError`."""
        if not self.named:
            raise UserError(
                f"{what} needs a model: give --base-url and --model, or both in a file (--endpoint)"
            )

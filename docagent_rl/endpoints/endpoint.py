"""Configuration of models behind OpenAI-compatible endpoints: address, price, sampling, budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, filled, read_yaml, validated


class Price(Section):
    """The price of a million tokens of a model, in any one currency; `null` if it is unknown."""

    input: float | None = Field(None, ge=0, allow_inf_nan=False)
    output: float | None = Field(None, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.input is None) != (self.output is None):
            raise ValueError("give both prices, input and output (--price-in, --price-out)")
        return self

    @property
    def is_known(self) -> bool:
        """True if the prices are given."""
        return self.input is not None

    def cost(self, sent: int, sampled: int) -> float:
        """Return the cost of tokens sent and sampled; 0 if the price is unknown."""
        return (sent * (self.input or 0.0) + sampled * (self.output or 0.0)) / 1e6


class Endpoint(Section):
    """The address of a model, and the limits of requests to it."""

    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable with the API key; `null` for servers that need no key."""
    timeout_s: float = Field(60.0, gt=0)
    """Maximum seconds for one request."""
    attempts: int = Field(3, ge=1)
    """Maximum number of requests for one reply."""
    backoff_s: float = Field(1.0, ge=0)
    """Seconds before the second attempt; doubled for each further one."""
    deadline_s: float | None = Field(None, gt=0)
    """Maximum seconds for one reply, all attempts included, but not the time in which a request
    waits because `concurrency` is reached. With `null`, 300 s, or the time of all attempts if that
    is longer.
    """
    concurrency: int = Field(16, ge=1, le=1000)
    """Maximum number of requests in flight per worker; a client opens up to 1,000 connections."""
    max_tokens: int = Field(512, ge=1)
    """Maximum length of a reply, thoughts included; a reply that reaches it counts as a failure."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Additional fields of every request, such as
    `{chat_template_kwargs: {enable_thinking: false}}`. If `max_completion_tokens` is among them,
    with any value, `max_tokens` is sent under that name; a `temperature` among them overrides any
    other. Reasoning models often need both.
    """

    price: Price = Price()
    """Price of the model, for commands with a budget; training runs have none."""

    @property
    def patience_s(self) -> float:
        """Maximum seconds for one reply."""
        return self.deadline_s or max(300.0, self.attempts * self.timeout_s)

    @property
    def named(self) -> bool:
        """True if both address and model are given."""
        return bool(self.base_url and self.model)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of one reply; with `None`, the endpoint's settings apply."""

    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    """Sent to the server; not all servers support it."""
    response_format: Mapping[str, Any] | None = None
    """A field of the protocol that makes some servers return only JSON."""

    def fields(self) -> dict[str, Any]:
        """Return the fields that are set, by their names in the protocol."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class BudgetConfig(Section):
    """The limits of one run of a command; `null` means no limit."""

    max_cost: float | None = Field(None, ge=0, allow_inf_nan=False)
    max_tokens: int | None = Field(None, ge=0)
    """Maximum number of tokens, sent and sampled together."""
    max_requests: int | None = Field(None, ge=0)


class ModelConfig(Endpoint):
    """A model behind an OpenAI-compatible endpoint, as given by options or a YAML file."""

    max_tokens: int = Field(2048, ge=1)
    """Maximum length of a reply, thoughts included; a reply that reaches it counts as a failure."""
    temperature: float = Field(0.0, ge=0, allow_inf_nan=False)
    budget: BudgetConfig = BudgetConfig()
    cache_dir: Path | None = None
    """Folder in which replies are cached; `null` leaves it to the command."""

    @model_validator(mode="after")
    def _priced(self) -> Self:
        if self.budget.max_cost is not None and not self.price.is_known:
            raise ValueError(
                "a maximum cost needs prices (--max-cost with --price-in and --price-out)"
            )
        return self

    @classmethod
    def load(cls, file: Path | None, options: Mapping[str, Any]) -> ModelConfig:
        """Return the model of a YAML file, with options that override its keys.

        Options are nested as in the file; `None` counts as not given.

        Raises:
            UserError: The file is not a YAML mapping, or a key is unknown or wrong; the message
                names it.
        """
        written = {} if file is None else read_yaml(file, "base_url: http://127.0.0.1:8000/v1")
        return validated(cls, filled(written, options), "the model" if file is None else str(file))

    def require(self, what: str) -> None:
        """Raise a `UserError` unless both address and model are given; `what` needs them."""
        if not self.named:
            raise UserError(
                f"{what} needs a model: give --base-url and --model, or both in a file (--endpoint)"
            )

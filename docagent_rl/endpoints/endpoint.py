"""The keys of every section that names a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from docagent_rl.base.section import Section

if TYPE_CHECKING:
    from docagent_rl.endpoints.price import Price


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

    def made(self) -> Price | None:
        """The price; `None` where none is given."""
        from docagent_rl.endpoints.price import Price

        if self.input is None or self.output is None:
            return None
        return Price(self.input, self.output, currency=self.currency)


class Endpoint(Section):
    """Where a model is asked, and how patiently."""

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

"""A model that a command asks: where, how, for how much, and where its replies are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, explain, merged
from docagent_rl.endpoints.endpoint import Endpoint

if TYPE_CHECKING:
    from docagent_rl.endpoints.meter import Meter
    from docagent_rl.endpoints.remote_model import RemoteModel


class BudgetConfig(Section):
    """The limits of one run of a command; `null` is without limit."""

    max_cost: float | None = Field(None, ge=0, allow_inf_nan=False)
    """In the currency of the price."""
    max_tokens: int | None = Field(None, ge=0)
    """Sent and sampled, together."""
    max_requests: int | None = Field(None, ge=0)


class ModelConfig(Endpoint):
    """A model behind an OpenAI-compatible endpoint, as commands name it: options, or a YAML file."""

    max_tokens: int = Field(2048, ge=1)
    """Length of a reply, thoughts included; one that reaches it does not count."""
    temperature: float = Field(0.0, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1)
    budget: BudgetConfig = BudgetConfig()
    cache_dir: Path | None = None
    """Folder in which replies are kept; `null` leaves it to the command."""

    @model_validator(mode="before")
    @classmethod
    def _patient(cls, data: Any) -> Any:
        """Raise the deadline and the patience of a check with the time for one request."""
        if not isinstance(data, Mapping) or not isinstance(data.get("timeout_s"), int | float):
            return data
        timeout, attempts = data["timeout_s"], data.get("attempts", 3)
        attempts = attempts if isinstance(attempts, int) else 3
        fields = cls.model_fields
        longer = {
            "deadline_s": max(fields["deadline_s"].default, timeout * attempts),
            "check_s": max(fields["check_s"].default, timeout / 4),
        }
        return {**longer, **data}

    @model_validator(mode="after")
    def _priced(self) -> Self:
        if self.budget.max_cost is not None and self.price.input is None:
            raise ValueError("a greatest cost needs prices (--max-cost with --price-in and --price-out)")
        return self

    @classmethod
    def load(cls, file: Path | None, options: Mapping[str, Any]) -> ModelConfig:
        """Return a YAML file's keys with options over them.

        Args:
            file: of the keys of this section; `None` takes the options alone.
            options: by key, nested as in the file; `None` counts as left out.

        Raises:
            UserError: the file is no YAML mapping, or a key is unknown or wrong; the message names it.
        """
        written = {} if file is None else _mapping(file)
        try:
            return cls.model_validate(merged(written, _given(options)))
        except ValidationError as error:
            raise UserError(explain(error, "the model" if file is None else str(file))) from error

    def require(self, what: str) -> None:
        """See that it says where to ask whom.

        Raises:
            UserError: it does not.
        """
        if not self.named:
            raise UserError(
                f"{what} needs a model: give --base-url and --model, or both in a file (--endpoint)"
            )

    def make_meter(self) -> Meter:
        """Return a meter with its limits, nothing spent."""
        from docagent_rl.endpoints.meter import Meter

        return Meter(**self.budget.model_dump(), currency=self.price.currency)

    def open(self, name: str, cache_dir: Path | None, *, meter: Meter | None = None) -> RemoteModel:
        """Return the model.

        Args:
            name: of its part, for messages.
            cache_dir: where replies are kept unless the configuration says; `None` keeps none.
            meter: shared with other models; `None` is that of `meter.metering`, else one of its own.

        Raises:
            UserError: it names no model, the key's environment variable is not set, or the cache cannot be
                opened.
        """
        # heavy imports that reading a configuration does without
        from docagent_rl.endpoints.chat_client import ChatEndpoint
        from docagent_rl.endpoints.json_cache import JsonCache
        from docagent_rl.endpoints.meter import current_meter
        from docagent_rl.endpoints.remote_model import RemoteModel

        self.require(f"the {name}")
        body = {**({} if self.top_p is None else {"top_p": self.top_p}), **self.extra_body}
        endpoint = ChatEndpoint.of(self, name, temperature=self.temperature, extra_body=body)
        folder = self.cache_dir or cache_dir
        cache = None if folder is None else JsonCache(folder, f"{name} cache", forever=True)
        return RemoteModel(endpoint, name, cache=cache, meter=meter or current_meter() or self.make_meter())


def _mapping(file: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{file}: cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise UserError(f"{file}: expected keys and values, e.g. `base_url: http://127.0.0.1:8000/v1`")
    return data


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those that were left out."""
    return {
        name: _given(value) if isinstance(value, Mapping) else value
        for name, value in options.items()
        if value is not None
    }

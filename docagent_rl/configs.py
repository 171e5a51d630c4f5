"""Reading configuration into pydantic models, with errors that name the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from docagent_rl.errors import UserError

ConfigT = TypeVar("ConfigT", bound=BaseModel)


def parse_config(kind: type[ConfigT], data: Mapping[str, Any], *, where: str) -> ConfigT:
    """Validate plain data as a configuration.

    Args:
        kind: the model class.
        data: nested mappings and plain values, for example from `OmegaConf.to_container(cfg, resolve=True)`.
        where: the key or file that holds `data`, for the message, e.g. `docagent.env`.

    Raises:
        UserError: every problem on its own line, with the full key.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise UserError("\n".join(_line(problem, where) for problem in error.errors())) from error


def _line(problem: Mapping[str, Any], where: str) -> str:
    key = ".".join([where, *(str(part) for part in problem["loc"])])
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key; remove it or correct its name"
    message = str(problem["msg"]).removeprefix("Value error, ")
    found = problem.get("input")
    return f"{key}: {message}" + ("" if isinstance(found, Mapping) else f", found {found!r}")

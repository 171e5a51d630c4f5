"""The section `docagent.reward_function`, which configures a custom reward function."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from docagent_rl.base.section import Section
from docagent_rl.base.user_code import FILE, PACKAGE

KEY = "reward.custom_reward_function"
"""verl's section, from which the recipes take `path`, `name` and `reward_kwargs`."""


class RewardMode(StrEnum):
    """The way in which the function's value is combined with the system's own reward."""

    BESIDE = "beside"
    """It is added to the system's reward, at the end of the trajectory."""
    REPLACE = "replace"
    """It is the only reward; the system's terms are still computed and logged."""


_Arguments = Annotated[
    dict[str, Any], BeforeValidator(lambda value: {} if value is None else value)
]


class RewardFunctionConfig(Section):
    """A function that is called once per trajectory, at its end."""

    path: str | None = None
    """A Python file, or a module as `pkg://package.module`; `None` if there is no function."""
    name: str = Field("compute_score", min_length=1)
    """The name of the function, and of its term in the metrics."""
    reward_kwargs: _Arguments = Field(default_factory=dict)
    """Additional arguments of the function."""
    mode: RewardMode = RewardMode.BESIDE
    weight: float = Field(1.0, ge=0, allow_inf_nan=False)
    """The weight of the function's value in the reward; with 0 the value is only logged."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.path is None and (given := sorted(self.model_dump(exclude_defaults=True))):
            raise ValueError(
                f"{', '.join(given)} has no effect without a function: set {KEY}.path to its file, "
                f"or to {PACKAGE}package.module"
            )
        if self.mode is RewardMode.REPLACE and self.weight == 0:
            raise ValueError("mode=replace with weight=0 rewards nothing: give a weight above 0")
        return self

    @property
    def file(self) -> Path | None:
        """Return the path of the file; `None` for a module."""
        if self.path is None or self.path.startswith(PACKAGE):
            return None
        return Path(self.path.removeprefix(FILE)).expanduser().absolute()

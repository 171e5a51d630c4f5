"""The configuration of a collection: a preset of the package, or a YAML file of one's own."""

from __future__ import annotations

from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, read_yaml, validated
from docagent_rl.lab.agents.scripted import Detours
from docagent_rl.lab.collect.filters import Duplicates, Filter, Format


class BoxFrame(StrEnum):
    """The unit of a grounding model's boxes."""

    DISPLAYED = "displayed"
    """Pixels of the image that it was sent."""
    NORM1000 = "norm1000"
    """Thousandths of each side."""


class TeacherConfig(Section):
    """The help that a teacher behind an endpoint gets."""

    guided_search: bool = False
    """Gold pages that were not shown yet come first in what a search finds. Only a teacher is
    helped so.
    """
    shuffled_candidates: int | None = Field(None, ge=2)
    """The first so many new pages of a search are shuffled, so that each place is right equally
    often.
    """
    grounding: bool = False
    """Boxes are drawn by a second model (`--grounder-base-url`, `--grounder-model`)."""
    grounding_frame: BoxFrame = BoxFrame.DISPLAYED


class CollectConfig(Section):
    """The player's settings, the number of trajectories, and the filters."""

    source: str = ""
    """Section of the paper that it follows."""
    departures: tuple[str, ...] = ()
    """Sentences on where it does not follow its source."""
    systems: tuple[str, ...] = ()
    """Systems that it is meant for; empty: all."""
    trajectories: int = Field(1, ge=1)
    """Trajectories of each question."""
    temperature: float | None = Field(None, ge=0, allow_inf_nan=False)
    """Temperature of the teacher, unless an option says."""
    teacher: TeacherConfig = TeacherConfig()
    detours: Detours = Detours()
    filters: tuple[Filter, ...] = (Format(), Duplicates())
    """In order; see docs/collect.md."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        # filters may be written as their names alone
        if isinstance(data, dict) and isinstance(data.get("filters"), list):
            steps = [{"kind": step} if isinstance(step, str) else step for step in data["filters"]]
            return {**data, "filters": steps}
        return data

    def check_system(self, system: str) -> None:
        """Raise `UserError` where it is not meant for a system."""
        if self.systems and system not in self.systems:
            meant = ", ".join(self.systems)
            raise UserError(
                f"this collection is meant for {meant}, and the recipe's system is {system}"
            )

    @classmethod
    def load(cls, name: str | None) -> CollectConfig:
        """Read a preset by name, or a `.yaml` file by its path; `None` takes the defaults.

        Raises:
            UserError: there is no such preset or file, or a key is unknown or wrong.
        """
        if name is None:
            return cls()
        presets = preset_names()
        file = Path(name)
        place = name
        if name in presets:
            file = files("docagent_rl.lab.collect") / "presets" / f"{name}.yaml"
            place = f"preset {name}"
        elif not name.endswith((".yaml", ".yml")):
            raise UserError(
                f"there is no preset {name!r}; known are {', '.join(presets)}, or name a .yaml file"
            )
        return validated(cls, read_yaml(file, "filters: [format, duplicates]", place), place)


def preset_names() -> list[str]:
    """Return the names of the package's presets."""
    folder = files("docagent_rl.lab.collect") / "presets"
    return sorted(
        p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml")
    )

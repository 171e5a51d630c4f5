"""The configuration of a collection: a shipped preset or the user's YAML file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, read_yaml, validated
from docagent_rl.lab.agents.scripted import Detours
from docagent_rl.lab.collect.filters import Duplicates, Filter, Format
from docagent_rl.lab.collect.rules import BoxFrame


class TeacherConfig(Section):
    """Help for a teacher behind an endpoint."""

    guided_search: bool = False
    """Rank gold pages that were not shown yet first in the results of a search. Only a teacher gets
    this help.
    """
    shuffled_candidates: int | None = Field(None, ge=2)
    """Shuffle this many of a search's first new pages, so that the right one is equally often in
    each place.
    """
    grounding: bool = False
    """Have a second model draw the boxes (`--grounder-base-url`, `--grounder-model`)."""
    grounding_frame: BoxFrame = BoxFrame.DISPLAYED


class CollectConfig(Section):
    """The settings of the player, the number of trajectories, and the filters."""

    source: str = ""
    """Section of the paper that the configuration follows."""
    departures: tuple[str, ...] = ()
    """Sentences about where the configuration departs from its source."""
    systems: tuple[str, ...] = ()
    """Systems that the configuration is meant for; empty: all."""
    trajectories: int = Field(1, ge=1)
    """Trajectories per question."""
    temperature: float | None = Field(None, ge=0, allow_inf_nan=False)
    """Temperature of the teacher, unless a command-line option sets it."""
    teacher: TeacherConfig = TeacherConfig()
    detours: Detours = Detours()
    filters: tuple[Filter, ...] = (Format(), Duplicates())
    """Filters in the order in which they apply; see docs/collect.md."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        # a filter may be written as just its name
        if isinstance(data, dict) and isinstance(data.get("filters"), list):
            steps = [{"kind": step} if isinstance(step, str) else step for step in data["filters"]]
            return {**data, "filters": steps}
        return data

    def check_system(self, system: str) -> None:
        """Raise `UserError` if the configuration is not meant for a system."""
        if self.systems and system not in self.systems:
            meant = ", ".join(self.systems)
            raise UserError(
                f"this collection is meant for {meant}, but the recipe's system is {system}: "
                "choose a recipe or a collection that fits"
            )

    @classmethod
    def load(cls, name: str | None) -> CollectConfig:
        """Read a preset by name, or a `.yaml` file by path; `None` means the defaults.

        Raises:
            UserError: there is no such preset or file, or a key is unknown or invalid.
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
                f"there is no preset {name!r}; available: {', '.join(presets)}, or the path of a "
                ".yaml file"
            )
        return validated(cls, read_yaml(file, "filters: [format, duplicates]", place), place)


def preset_names() -> list[str]:
    """Return the names of the shipped presets."""
    folder = files("docagent_rl.lab.collect") / "presets"
    return sorted(
        p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml")
    )

"""JSON schemas with which an editor completes and checks recipes and `agent.yaml`."""

from __future__ import annotations

from collections.abc import Mapping

from docagent_rl.checks.sft_check import SftSection
from docagent_rl.config import DocAgentConfig
from docagent_rl.lab.own_agent.project import Project
from docagent_rl.systems import SYSTEMS, get_system
from tools.reference.sections import Schema, as_text, for_editors, section_schemas

FOLDER = "recipes/schema"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MADE = "Made by python -m tools.reference; docs/configuration.md has the same as tables."


def schema_files() -> Mapping[str, str]:
    """Return the text of each schema, by its path."""
    return {
        f"{FOLDER}/recipe.json": as_text(recipe_schema()),
        f"{FOLDER}/fine_tuning.json": as_text(fine_tuning_schema()),
        f"{FOLDER}/agent.json": as_text(agent_schema()),
    }


def recipe_schema() -> Schema:
    """Return the schema of a recipe: `docagent`, with the environment of its system.

    verl's sections are left to verl, and a system of one's own checks its own environment.
    """
    kinds = [DocAgentConfig, *(get_system(name).config_type for name in SYSTEMS)]
    (section, *environments), definitions = section_schemas(kinds)
    chosen = [
        {
            "if": {"properties": {"system": {"const": name}}, "required": ["system"]},
            "then": {"properties": {"env": {"anyOf": [environment, {"type": "null"}]}}},
        }
        for name, environment in zip(SYSTEMS, environments, strict=True)
    ]
    docagent = {"allOf": [section, *chosen]}
    return _of_file("A recipe of docagent-rl", {"docagent": docagent}, definitions)


def fine_tuning_schema() -> Schema:
    """Return the schema of a recipe for supervised fine-tuning."""
    (section,), definitions = section_schemas([SftSection])
    return _of_file("A recipe for fine-tuning", {"docagent": section}, definitions)


def agent_schema() -> Schema:
    """Return the schema of `agent.yaml`, which is no part of a recipe and composed with nothing."""
    (section,), definitions = section_schemas([Project])
    return {"$schema": _DIALECT, "title": "agent.yaml", "$comment": _MADE, **section} | {
        "$defs": definitions
    }


def _of_file(title: str, sections: Schema, definitions: Schema) -> Schema:
    return {
        "$schema": _DIALECT,
        "title": title,
        "$comment": _MADE,
        "type": "object",
        "properties": {"defaults": {"type": "array"}, **sections},
        "$defs": for_editors(definitions),
    }

"""The page of all keys of the configuration, made from its sections."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from docagent_rl.base.section import VariantSection
from docagent_rl.checks.sft_check import SftSection
from docagent_rl.config import DocAgentConfig
from docagent_rl.lab.own_agent.project import Project
from docagent_rl.systems import SYSTEMS, get_system
from tools.reference.markdown import table
from tools.reference.sections import Schema, resolved, section_schemas

OPENING = """# Configuration

*For whoever looks up a key: its values, its default and its meaning. Made by `python -m tools.reference` from the sections that check it.*

A recipe is a YAML file for Hydra. Its section `docagent` is this package's; [verl's own keys](verl_switches.md) stand beside it. A key is set on the command line (`docagent.rollout.turn_tokens=1024`; with `+` if the recipe does not list it) or in a recipe ([how](extending.md#a-recipe)). `docagent-rl recipes show NAME` says what a recipe sets and why, `recipes check NAME` whether it can run. An unknown key is an error.

**In an editor.** The schemas [recipe.json](../recipes/schema/recipe.json), [fine_tuning.json](../recipes/schema/fine_tuning.json) and [agent.json](../recipes/schema/agent.json) complete, explain and check keys while you type. Editors with the YAML language server (VS Code, Neovim, Emacs) take one as the first line of a file:

```yaml
# yaml-language-server: $schema=/path/to/recipes/schema/recipe.json
```

An installed package has them in `docagent_rl/recipes/schema/`."""
BASE = Path(__file__).resolve().parents[2] / "recipes" / "base" / "docagent.yaml"
_NUMBERS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}
_PLAIN = {
    "integer": "integer",
    "number": "number",
    "boolean": "`true` or `false`",
    "null": "null",
    "object": "mapping",
}


@dataclass
class _Page:
    """Sections that are written, each of which is described once."""

    definitions: Schema
    written: dict[str, str] = field(default_factory=dict)
    """The path under which a definition is described, by its name."""

    def section(self, path: str, schema: Schema, defaults: Any, level: int) -> Iterator[str]:
        """Yield the lines of a section, and of those below it."""
        whole = resolved(schema, self.definitions)
        self.written[_name(schema)] = path
        yield from (f"{'#' * level} {path}", "")
        if text := whole.get("description"):
            yield from (" ".join(text.split()), "")
        rows, below = [], []
        for key, value in whole["properties"].items():
            default = _default_of(defaults, key)
            inner = self._inner(value)
            if inner is not None and _name(inner) not in self.written:
                below.append((f"{path}.{key}", inner, default))
            shown = "" if inner is not None else _shown(default, value)
            rows.append(
                (f"`{key}`", self._values(value, f"{path}.{key}"), shown, self._meaning(value))
            )
        yield from table(("key", "values", "default", "meaning"), *rows)
        yield ""
        for each in below:
            if _name(each[1]) not in self.written:
                yield from self.section(*each, level=min(level + 1, 4))

    def _meaning(self, value: Schema) -> str:
        """Return the text of a key, with those of the values to choose from."""
        whole = resolved(value, self.definitions)
        texts = [whole.get("description", "")]
        for each in (value, *value.get("anyOf", ())):
            choice = resolved(each, self.definitions)
            said = zip(choice.get("enum", ()), choice.get("enumDescriptions", ()), strict=False)
            texts += [f"`{name}`: {text}" for name, text in said if text]
        return " ".join(texts)

    def _inner(self, value: Schema) -> Schema | None:
        """Return the section that a key contains or that each of its entries is, if any."""
        for each in (value, *value.get("anyOf", ()), value.get("additionalProperties")):
            if isinstance(each, dict) and "properties" in resolved(each, self.definitions):
                return each
        return None

    def _values(self, value: Schema, path: str) -> str:
        if "anyOf" in value:
            return " or ".join(self._values(each, path) for each in value["anyOf"])
        inner = self._inner(value)
        if inner is not None:
            place = self.written.get(_name(inner), path)
            several = "by name: " if "additionalProperties" in value else ""
            return f"{several}section" + ("" if place == path else f", as `{place}`")
        whole = resolved(value, self.definitions)
        if "const" in whole or "enum" in whole:
            return " or ".join(f"`{each}`" for each in whole.get("enum", [whole.get("const")]))
        if whole.get("type") == "string":
            return "path" if whole.get("format") == "path" else "text"
        if whole.get("type") == "array":
            return f"list of {self._values(whole.get('items', {}), path)}s".removesuffix("of anys")
        bounds = [f"{word} {whole[key]}" for key, word in _NUMBERS.items() if key in whole]
        return ", ".join([_PLAIN.get(whole.get("type", ""), "any"), *bounds])


def configuration_page() -> str:
    """Return the page."""
    systems = {name: get_system(name).config_type for name in SYSTEMS}
    kinds: list[type[BaseModel]] = [DocAgentConfig, *systems.values(), SftSection, Project]
    (recipe, *environments, fine_tuning, project), definitions = section_schemas(kinds)
    base = yaml.safe_load(BASE.read_text(encoding="utf-8"))["docagent"]
    lines = [OPENING, "", "## The section of a recipe", ""]
    lines += _Page(definitions).section("docagent", recipe, base, 3)
    for (name, kind), schema in zip(systems.items(), environments, strict=True):
        lines += [f"## The environment of {name}", ""]
        lines += _Page(definitions).section("docagent.env", schema, _of_variants(kind), 3)
    lines += ["## The section of a recipe for fine-tuning", ""]
    lines += _Page(definitions).section("docagent", fine_tuning, {}, 3)
    lines += ["## An agent of your own", "", "[own_data.md](own_data.md) says how it is used.", ""]
    lines += _Page(definitions).section("agent.yaml", project, {}, 3)
    return "\n".join(lines).rstrip() + "\n"


@dataclass(frozen=True)
class _Variants:
    """The values of a key in both variants."""

    paper: Any
    released: Any


def _of_variants(kind: type[BaseModel]) -> Any:
    if not issubclass(kind, VariantSection):
        return {}
    paper = kind.variants["paper"]
    return _Variants(paper, kind.variants.get("released", paper))


def _default_of(defaults: Any, key: str) -> Any:
    if isinstance(defaults, _Variants):
        paper, released = (_default_of(each, key) for each in (defaults.paper, defaults.released))
        return _Variants(paper, released)
    return defaults.get(key, ...) if isinstance(defaults, Mapping) else ...


def _shown(default: Any, value: Schema) -> str:
    """Return a default: of the base recipe or the variants, else of the section itself."""
    if isinstance(default, _Variants):
        paper, released = (_shown(each, value) for each in (default.paper, default.released))
        return paper if paper == released else f"{paper}, released: {released}"
    if default is ...:
        if "default" not in value:
            return ""
        default = value["default"]
    if default == "???":
        return "required"
    return f"`{json.dumps(default, default=str) if not isinstance(default, str) else default}`"


def _name(schema: Schema) -> str:
    return schema.get("$ref", "")

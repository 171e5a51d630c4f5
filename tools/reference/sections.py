"""Sections of the configuration as JSON schemas, with the texts below their fields."""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterable, Iterator
from copy import deepcopy
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

Schema = dict[str, Any]
_OTHERS = {*sys.stdlib_module_names, "pydantic"}
"""Packages whose classes are bases of ours, and whose texts are not for our pages."""


class _Described(GenerateJsonSchema):
    """Adds the text below each field, which pydantic leaves out, and the meaning of each value."""

    def model_schema(self, schema: Any) -> Schema:
        made = super().model_schema(schema)
        texts = field_texts(schema["cls"])
        for name, field in made.get("properties", {}).items():
            field.pop("title", None)
            if name in texts:
                field["description"] = texts[name]
        return made

    def enum_schema(self, schema: Any) -> Schema:
        made = super().enum_schema(schema)
        texts = field_texts(schema["cls"])
        if texts:
            made["enumDescriptions"] = [texts.get(each.name, "") for each in schema["cls"]]
        return made


def section_schemas(kinds: Iterable[type[BaseModel]]) -> tuple[list[Schema], Schema]:
    """Return the schema of each section, and the definitions that they name as `#/$defs/NAME`."""
    listed = list(kinds)
    made, shared = models_json_schema(
        [(kind, "validation") for kind in listed], schema_generator=_Described
    )
    return [made[kind, "validation"] for kind in listed], shared["$defs"]


def field_texts(kind: type) -> dict[str, str]:
    """Return the texts below the fields of a class and of its bases, each in one line."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] not in _OTHERS:
            texts |= dict(_texts(base))
    return texts


def _texts(kind: type) -> Iterator[tuple[str, str]]:
    body = _classes(inspect.getmodule(kind)).get(kind.__qualname__, [])
    for field, below in pairwise(body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                yield name, " ".join(text.split())


@cache
def _classes(module: ModuleType) -> dict[str, list[ast.stmt]]:
    tree = ast.parse(inspect.getsource(module))
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


def resolved(field: Schema, definitions: Schema) -> Schema:
    """Return a field with the definition that it names, its own text first."""
    if "$ref" not in field:
        return field
    named = definitions[field["$ref"].rpartition("/")[2]]
    return {**named, **{key: value for key, value in field.items() if key != "$ref"}}


def for_editors(definitions: Schema) -> Schema:
    """Return definitions that files satisfy that are composed with others.

    No key is required, and each value may be an interpolation (`${...}`), left to the command line
    (`???`), or null, which stands for a default.
    """
    made = deepcopy(definitions)
    for part in made.values():
        part.pop("required", None)
        for name, field in part.get("properties", {}).items():
            part["properties"][name] = _lenient(field)
    return {**made, "open": {"anyOf": [{"type": "null"}, {"type": "string", "pattern": _OPEN}]}}


def _lenient(field: Schema) -> Schema:
    kept = {key: field[key] for key in ("description", "default") if key in field}
    inner = {key: value for key, value in field.items() if key not in kept}
    return {**kept, "anyOf": [inner, {"$ref": "#/$defs/open"}]}


_OPEN = r"\$\{|^\?\?\?$"


def as_text(schema: Schema) -> str:
    """Return a schema as a file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"

"""Headers that carry their own checksum, and what is said of one that is damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.base.sealed import is_sealed, seal
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.index_header import Checksum

M = TypeVar("M", bound="SealedModel")


class SealedModel(BaseModel):
    """A file that ends with its own checksum."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    checksum: Checksum = None

    def sealed(self) -> str:
        """The file's text."""
        return seal(self.model_dump_json(indent=1))


def read_sealed(model: type[M], data: bytes, path: Path, files: IndexFiles) -> M:
    """A header.

    Raises:
        UserError: it is damaged or of another version.
    """
    try:
        if not is_sealed(data):
            raise ValueError("it has no checksum")
        return model.model_validate_json(data)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"]) or "file"
        raise damaged_vectors(path, f"{field}: {problem['msg']}", files) from error
    except ValueError as error:
        raise damaged_vectors(path, str(error), files) from error


def damaged_vectors(path: Path, problem: str, files: IndexFiles) -> UserError:
    """The error for a file of an index."""
    return UserError(
        f"{path}: damaged, or made by another version ({problem}): {rebuild_command(files.root)}; "
        "whole parts are kept"
    )


def rebuild_command(root: Path, store: Path | str = "STORE") -> str:
    """What to do about an index that does not fit."""
    command = f"docagent-rl index build --model MODEL --store {store} --out {root} --force"
    return f"rebuild the index with `{command}`"


def index_kind(data: bytes) -> str:
    """The kind that the header of any index names; empty where it cannot be seen."""
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    kind = found.get("kind") if isinstance(found, Mapping) else None
    return kind if isinstance(kind, str) else ""

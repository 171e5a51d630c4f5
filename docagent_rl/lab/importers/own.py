"""Importers written by users, named as `package.module:CLASS`."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.user_code import described, load_attribute
from docagent_rl.lab.importers.importer import Importer
from docagent_rl.lab.importers.native import Skip, is_file_name
from docagent_rl.samples.sample import Split

_TEXTS = ("name", "question", "gold")
_LISTS = ("files", "pictures", "split_field", "kept", "pdf_files", "page_files")
"""Attributes that are tuples of texts."""
_BASE = f"{Importer.__module__}.{Importer.__qualname__}"


def own_importer(path: str) -> Importer:
    """Return an importer written by the user.

    Raises:
        UserError: it cannot be imported or instantiated, is not a subclass of `Importer`, or lacks
            attributes.
    """
    found = load_attribute(path, f"importer {path!r}")
    if not isinstance(found, type):
        raise UserError(
            f"importer {path!r} is a {type(found).__name__}, expected a subclass of {_BASE}"
        )
    if not issubclass(found, Importer):
        raise UserError(
            f"importer {path!r} is not a subclass of {_BASE}; derive it from that class"
        )
    if problems := _problems(found):
        raise UserError(f"importer {path!r}: {'; '.join(problems)} (docs/extending.md)")
    try:
        return found()
    except Exception as error:  # a user's class may raise anything
        raise UserError(
            f"importer {path!r} cannot be created without arguments: {described(error)}"
        ) from error


@contextmanager
def named_if_own(importer: Importer, what: str) -> Generator[None]:
    """Convert errors that a user's importer raises in the block, naming it and the line.

    `what` describes what it was doing.
    """
    try:
        yield
    except (Skip, UserError, InfrastructureError):
        raise
    # a user's class may raise anything
    except Exception as error:
        kind = type(importer)
        if kind.__module__.startswith("docagent_rl."):
            raise
        raise UserError(
            f"importer {kind.__module__}:{kind.__qualname__}, {what}: {described(error)}"
        ) from error


def _problems(kind: type[Importer]) -> list[str]:
    needed: dict[str, Any] = {name: getattr(kind, name, None) for name in _TEXTS}
    if kind.document_of is Importer.document_of:
        needed["document"] = getattr(kind, "document", None)
    if kind.rows is Importer.rows:
        needed["dataset"] = kind.dataset
    problems = [
        f"class attribute {name!r} has to be a text"
        for name, value in needed.items()
        if not isinstance(value, str) or not value.strip()
    ]
    if isinstance(needed["name"], str) and needed["name"] and not is_file_name(needed["name"]):
        problems.append(
            f"class attribute 'name' is {needed['name']!r}, which is not valid as a file name"
        )
    for name in _LISTS:
        value = getattr(kind, name)
        if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
            problems.append(f"class attribute {name!r} has to be a tuple of texts")
    for name in ("split", "unnamed_split"):
        if not isinstance(getattr(kind, name), Split | None):
            problems.append(
                f"class attribute {name!r} has to be a Split (docagent_rl.samples), such as "
                "Split.TEST, or None"
            )
    if type(kind.first_page) is not int:
        problems.append("class attribute 'first_page' has to be a whole number")
    for name in ("sizes", "corpus"):
        if not isinstance(getattr(kind, name), bool):
            problems.append(f"class attribute {name!r} has to be True or False")
    if not _counts_rows(kind.released):
        problems.append("class attribute 'released' has to be numbers of rows by (data set, Split)")
    if not kind.files and kind.paths is Importer.paths and kind.rows is Importer.rows:
        problems.append(
            "class attribute 'files' has no pattern, and neither paths() nor rows() is overridden"
        )
    return problems


def _counts_rows(released: Any) -> bool:
    """Return whether a value is a mapping as `Importer.released`."""
    if not isinstance(released, Mapping):
        return False
    for key, rows in released.items():
        if type(rows) is not int or not isinstance(key, tuple) or len(key) != 2:
            return False
        dataset, split = key
        if not isinstance(dataset, str) or not isinstance(split, Split):
            return False
    return True

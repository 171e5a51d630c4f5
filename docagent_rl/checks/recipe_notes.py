"""Where recipes depart from their papers, as the comments that open them say.

A block is a title line followed by one note a line, `#   key, key: text`; longer texts go on with more
indentation. `#   as in <recipe>` takes over that recipe's block of the same title.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.resources.abc import Traversable

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_list import NOTES, ROOT, Kind, recipe_kind

_SHORT = {part: f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "ref", "model")} | {
    "env": "docagent.env"
}
_AS_IN = "as in "
_NOTE, _CONTINUED = "#   ", "#     "


class Block(Enum):
    """What a block of notes is about; the value is its title."""

    DEPARTURES, CHOICES, RELEASED, UNREAD = NOTES


@dataclass(frozen=True, slots=True)
class Note:
    """One line of a block.

    Args:
        keys: of the configuration, in full.
        text: what it says of them.
    """

    keys: tuple[str, ...]
    text: str


def recipe_notes(name: str, block: Block, root: Traversable = ROOT) -> list[Note]:
    """The notes of a recipe, those that it takes over included.

    Args:
        name: the recipe.
        block: which notes.
        root: folder of recipes.

    Raises:
        UserError: a line is no note, or recipes take over each other's.
    """
    return list(_notes(name, block, root, ()))


def _notes(name: str, block: Block, root: Traversable, above: tuple[str, ...]) -> Iterator[Note]:
    if name in above:
        raise UserError(f"recipes {' -> '.join([*above, name])} take over each other's notes")
    short = _SHORT if recipe_kind(name, root) is Kind.RL else {}
    for line in _lines(name, block, root):
        if line.startswith(_AS_IN):
            yield from _notes(line.removeprefix(_AS_IN), block, root, (*above, name))
            continue
        keys, colon, text = line.partition(": ")
        if not colon:
            raise UserError(f"recipes/{name}.yaml: {line!r} is no note of the form `key: text`")
        yield Note(tuple(_full(key.strip(), short) for key in keys.split(",")), text)


def _lines(name: str, block: Block, root: Traversable) -> list[str]:
    """The lines of a block, continued ones joined; none where the recipe has no such block."""
    path = root / f"{name}.yaml"
    if not path.is_file():
        raise UserError(f"there is no recipe {name!r} to take notes over from")
    found: list[str] = []
    inside = False
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if line.removeprefix("#").strip() == block.value:
            inside = True
        elif not line.startswith(_NOTE):
            inside = False
        elif inside and line.startswith(_CONTINUED) and found:
            found[-1] += f" {line.removeprefix('#').strip()}"
        elif inside:
            found.append(line.removeprefix("#").strip())
    return found


def _full(key: str, short: Mapping[str, str]) -> str:
    first, dot, rest = key.partition(".")
    return f"{short.get(first, first)}{dot}{rest}"

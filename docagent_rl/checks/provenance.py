"""The provenance of a recipe's settings: `recipes/provenance/<recipe>.yaml`.

The file has up to six lists, and can inherit those of another recipe:

```yaml
like: alden_qwen2_5_vl_7b      # inherit all of its lists; entries below are added, and override
printed:                       # key: [value in the paper, where it is printed]
  docagent.env.max_turns: [6, Sec. 5.1]
departs:                       # keys: why the recipe's value differs from `printed`
release:                       # keys: value of the released code, if the paper prints none
silent:                        # keys: value chosen here, if neither paper nor code has one
released:                      # keys: what else to set with docagent.env.variant=released
unread:                        # keys: what they reward although no document was read
```

Several keys that share a text are separated by commas. A value that cannot be written as a
configuration value is a sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import yaml

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_list import NOTES, ROOT

FOLDER = "provenance"


class ProvenanceSource(StrEnum):
    """The lists of notes in a provenance file, each with the title under which it is shown."""

    DEPARTS = "departs"
    RELEASE = "release"
    SILENT = "silent"
    RELEASED = "released"
    UNREAD = "unread"

    @property
    def heading(self) -> str:
        """The title above the notes."""
        return NOTES[list(ProvenanceSource).index(self)]


class Printed(NamedTuple):
    """A value that a paper prints for a key, as a configuration value or a sentence, and where."""

    value: Any
    where: str


class Note(NamedTuple):
    """A text about configuration keys, which are given in full."""

    keys: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origins of a recipe's settings."""

    printed: Mapping[str, Printed] = field(default_factory=dict)
    """The paper's values, by key."""
    notes: Mapping[ProvenanceSource, Sequence[Note]] = field(default_factory=dict)
    """The other lists."""
    like: str | None = None
    """The recipe whose lists it inherits."""
    own: Mapping[ProvenanceSource, Sequence[Note]] = field(default_factory=dict)
    """The notes without inherited ones."""

    def keys(self, *sources: ProvenanceSource) -> set[str]:
        """Return the keys in some lists of notes; without an argument, those in all lists."""
        chosen = sources or tuple(ProvenanceSource)
        return {
            key for source in chosen for note in self.notes.get(source, ()) for key in note.keys
        }


def read_provenance(name: str, root: Traversable = ROOT, above: tuple[str, ...] = ()) -> Provenance:
    """Read the provenance file of a recipe in the folder `root`; a missing file counts as empty.

    `above` are the recipes that inherit from it.

    Raises:
        UserError: the file is not valid, or inherits from a missing file or from itself.
    """
    file = root / FOLDER / f"{name}.yaml"
    where = f"recipes/{FOLDER}/{name}.yaml"
    if above and not file.is_file():
        file = ROOT / FOLDER / f"{name}.yaml"  # a user's recipe may inherit from the package's
    if name in above:
        raise UserError(
            f"recipes {' -> '.join([*above, name])} inherit each other's provenance: remove one "
            "`like`"
        )
    if not file.is_file():
        if above:
            raise UserError(
                f"recipes/{FOLDER}/{above[-1]}.yaml: like: there is no {FOLDER}/{name}.yaml"
            )
        return Provenance()
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        like = data.pop("like", None)
        printed = {key: Printed(*entry) for key, entry in (data.pop("printed", None) or {}).items()}
        own = {ProvenanceSource(kind): _notes(texts or {}) for kind, texts in data.items()}
    except (yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        raise UserError(f"{where}: {error}") from error
    if like is None:
        return Provenance(printed, own, None, own)
    base = read_provenance(like, root, (*above, name))
    notes = {kind: [*base.notes.get(kind, ()), *own.get(kind, ())] for kind in ProvenanceSource}
    return Provenance({**base.printed, **printed}, notes, like, own)


def _notes(texts: Mapping[str, Any]) -> list[Note]:
    return [Note(tuple(map(str.strip, keys.split(","))), str(text)) for keys, text in texts.items()]

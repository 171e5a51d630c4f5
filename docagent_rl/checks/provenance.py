"""The provenance of a recipe's settings: `recipes/provenance/<recipe>.yaml`.

The file has up to six lists and may take over those of another recipe:

```yaml
like: alden_qwen2_5_vl_7b      # all of its lists; what follows is added, and wins
printed:                       # key: [value in the paper, where it is printed]
  docagent.env.max_turns: [6, Sec. 5.1]
departs:                       # keys: why the recipe has another value than `printed`
release:                       # keys: value of the released code, where the paper prints none
silent:                        # keys: value chosen here, where neither says anything
released:                      # keys: what else to set with docagent.env.variant=released
unread:                        # keys: what they reward although no document was read
```

Several keys with one text are separated by commas. A value that a recipe cannot hold is a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import yaml
from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import flat
from docagent_rl.checks.recipe_list import NOTES, ROOT, Kind, recipe_kind
from docagent_rl.config import plain
from docagent_rl.systems import get_system

FOLDER = "provenance"
ENV = "docagent.env"
_HOW_IT_RUNS = re.compile(
    r"(docagent|trainer)\.(system|model_family|store|workspace|experiment_name|\w*_freq)$"
    r"|docagent\.(text_)?retriever(_cpu)?\.(index|backend|service|encoder|deadline_s|kind|cache\w*)"
    r"|docagent\.text_retriever_cpu|docagent\.roles\.\w+\.(backend|base_url|max_tokens|extra_body|timeout_s)"
    r"|docagent\.judge\.(kind|base_url|deadline_s|timeout_s|max_tokens|concurrency)"
    r"|.*\.(gpu_memory_utilization|enable_gradient_checkpointing|use_remove_padding|\w*max_token_len_per_gpu"
    r"|ppo_micro_batch_size_per_gpu|use_dynamic_bsz|param_offload|optimizer_offload|max_num_batched_tokens)$"
    rf"|{ENV}\.(variant|allow_\w+|display\.grid|prompts)\b"
)
"""Keys on which a paper has no opinion: where a run lies, what it fits into, which data there are."""


class Source(StrEnum):
    """The lists of notes of a provenance file, each with its title where a recipe is shown."""

    DEPARTS = "departs"
    RELEASE = "release"
    SILENT = "silent"
    RELEASED = "released"
    UNREAD = "unread"

    @property
    def heading(self) -> str:
        """The title above the notes."""
        return NOTES[list(Source).index(self)]


class Printed(NamedTuple):
    """A value that a paper prints of a key: in the terms of the configuration, or a sentence; and where."""

    value: Any
    where: str


class Note(NamedTuple):
    """A text about keys of the configuration, which are given in full."""

    keys: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origins of a recipe's settings."""

    printed: Mapping[str, Printed] = field(default_factory=dict)
    """The paper's values, by key."""
    notes: Mapping[Source, Sequence[Note]] = field(default_factory=dict)
    """The other lists."""
    like: str | None = None
    """The recipe whose lists it takes over."""
    own: Mapping[Source, Sequence[Note]] = field(default_factory=dict)
    """The notes without those that it takes over."""

    def keys(self, *sources: Source) -> set[str]:
        """Return the keys of some lists of notes; of all lists without an argument."""
        chosen = sources or tuple(Source)
        return {key for source in chosen for note in self.notes.get(source, ()) for key in note.keys}


def read_provenance(name: str, root: Traversable = ROOT, above: tuple[str, ...] = ()) -> Provenance:
    """Read the provenance file of a recipe in the folder `root`; it is empty where there is none.

    `above` are the recipes that take it over.
    """
    file, where = root / FOLDER / f"{name}.yaml", f"recipes/{FOLDER}/{name}.yaml"
    if above and not file.is_file():
        file = ROOT / FOLDER / f"{name}.yaml"  # a user's recipe may be like one of the package
    if name in above:
        raise UserError(f"recipes {' -> '.join([*above, name])} take over each other's provenance")
    if not file.is_file():
        if above:
            raise UserError(f"recipes/{FOLDER}/{above[-1]}.yaml: like: there is no {FOLDER}/{name}.yaml")
        return Provenance()
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        like = data.pop("like", None)
        printed = {key: Printed(*entry) for key, entry in (data.pop("printed", None) or {}).items()}
        own = {Source(kind): _notes(texts or {}) for kind, texts in data.items()}
    except (yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        raise UserError(f"{where}: {error}") from error
    if like is None:
        return Provenance(printed, own, None, own)
    base = read_provenance(like, root, (*above, name))
    notes = {kind: [*base.notes.get(kind, ()), *own.get(kind, ())] for kind in Source}
    return Provenance({**base.printed, **printed}, notes, like, own)


def _notes(texts: Mapping[str, Any]) -> list[Note]:
    return [Note(tuple(map(str.strip, keys.split(","))), str(text)) for keys, text in texts.items()]


def provenance_problems(name: str, config: DictConfig, root: Traversable = ROOT) -> list[str]:
    """Return a sentence for each setting without provenance, or with a wrong one; none without a file."""
    found = read_provenance(name, root)
    if not found.printed and not found.notes:
        return []
    return [f"recipes/{FOLDER}/{name}.yaml: {text}" for text in _problems(name, found, config, root)]


def _problems(name: str, found: Provenance, config: DictConfig, root: Traversable) -> Iterator[str]:
    departs = found.keys(Source.DEPARTS)
    values = OmegaConf.create(plain(config))
    if recipe_kind(name, root) is Kind.RL:  # every key of its environment, as the variant fills it
        env = get_system(values.docagent.system).parse_config(plain(values.docagent.env))
        OmegaConf.update(values, ENV, env.model_dump(mode="json"), merge=False, force_add=True)
    for key, printed in found.printed.items():
        same = OmegaConf.select(values, key) == printed.value
        if not same and key not in departs:
            yield f"{key} is not the paper's {printed.value!r} ({printed.where}); say why under `departs`"
        if same and key in departs:
            yield f"{key} is the paper's and does not depart"
    for key in sorted(departs - found.printed.keys()):
        yield f"{key} departs from nothing; say under `printed` what the paper has"
    known = found.keys() | found.printed.keys()
    for key in sorted(known):
        parent, _, leaf = key.rpartition(".")
        section = OmegaConf.select(values, parent) if parent else values
        if not isinstance(section, DictConfig) or leaf not in section:
            yield f"{key} is no key of the recipe"
    for key in sorted(_opinions(name, values, root)):
        if not any(f"{key}.".startswith(f"{each}.") for each in known):
            yield f"{key} has no provenance; say where its value comes from"


def _opinions(name: str, values: DictConfig, root: Traversable) -> set[str]:
    """Return the keys on which a paper could have an opinion: the environment's and the recipe's."""
    text = (root / f"{name}.yaml").read_text(encoding="utf-8")
    sections = {key: value for key, value in yaml.safe_load(text).items() if key != "defaults"}
    keys = [key for key, _ in flat(sections)]
    if (env := OmegaConf.select(values, ENV)) is not None:
        keys += [key for key, _ in flat(plain(env), f"{ENV}.")]
    return {key for key in keys if not _HOW_IT_RUNS.match(key)}

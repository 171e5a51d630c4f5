"""The words and quantities of synthetic reports, from `lexicon.yaml`."""

import math
import random
from pathlib import Path
from typing import Literal

import yaml
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

Words = tuple[str, ...]

NAMES_PER_DOCUMENT = 64
"""Names reserved for each document; unused ones are not given to any other document."""


@dataclass(frozen=True)
class Quantity:
    """A quantity that tables and charts report."""

    noun: str
    """Fits into "the <noun> of ..."."""
    low: float
    high: float
    unit: str = ""
    """Unit of measurement; empty for plain counts."""
    decimals: int = 0

    @property
    def in_unit(self) -> str:
        """`", in <unit>"`, or nothing for plain counts."""
        return f", in {self.unit}" if self.unit else ""

    @property
    def title(self) -> str:
        """The noun without "number of", capitalised."""
        return sentence_case(self.noun.removeprefix("number of "))

    @property
    def heading(self) -> str:
        """The title as a column heading or caption, with the unit in brackets."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


@dataclass(frozen=True)
class Attribute:
    """A fact that is stated about every unit."""

    name: str
    kind: Literal["number", "year", "code", "place"]
    """The way in which its value is drawn."""
    statement: str
    questions: Words
    decoy: str = ""
    """A sentence about another year, used in hard documents; empty if there is none."""
    low: float = 0
    high: float = 0
    decimals: int = 0


@dataclass(frozen=True)
class Theme:
    """A kind of report about units (divisions, lines, ...) that depend on hubs (depots, workshops,
    ...).
    """

    key: str
    report: str
    companies: Words
    """Words that follow the made-up name of the organisation."""
    unit: str
    units: str
    hub: str
    hubs: str
    hub_statement: str
    hub_clause: str
    """Refers to the hub without its name: "the depot that supplies {unit}"."""
    yearly: tuple[Quantity, Quantity]
    quarterly: tuple[Quantity, ...]
    charted: tuple[Quantity, Quantity]
    hub_measures: tuple[Quantity, ...]


@dataclass(frozen=True)
class Filler:
    """Templates of sentences without figures, and the words that fill them."""

    openers: Words
    reasons: Words
    followers: Words
    topics: Words
    adjectives: Words


@dataclass(frozen=True)
class Lexicon:
    """The content of `lexicon.yaml`."""

    names: dict[str, Words]
    filler: Filler
    staff: tuple[Attribute, ...]
    premises: tuple[Attribute, ...]
    themes: tuple[Theme, ...]


def sentence_case(text: str) -> str:
    """Return `text` with its first letter in upper case, otherwise unchanged."""
    return text[0].upper() + text[1:]


def document_names(seed: int, index: int) -> list[str]:
    """Return the made-up names of document `index`; the first `MAX_DOCUMENTS` documents share
    none.
    """
    rng = random.Random(f"names/{seed}")
    offset = rng.randrange(_POOL)
    step = rng.randrange(_POOL)
    # a step that is coprime to the pool size visits every name once before any repeats
    while math.gcd(step, _POOL) != 1:
        step = rng.randrange(_POOL)
    start = index * NAMES_PER_DOCUMENT
    return [
        _name((offset + place * step) % _POOL) for place in range(start, start + NAMES_PER_DOCUMENT)
    ]


def _name(number: int) -> str:
    name = ""
    for syllables in _SYLLABLES:
        number, choice = divmod(number, len(syllables))
        name += syllables[choice]
    return name


LEXICON = TypeAdapter(Lexicon).validate_python(
    yaml.load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
)
_SYLLABLES = [LEXICON.names[part] for part in ("onsets", "vowels", "middles", "vowels", "ends")]
_POOL = math.prod(map(len, _SYLLABLES))

MAX_DOCUMENTS = _POOL // NAMES_PER_DOCUMENT
"""Most documents in a corpus before names would repeat."""

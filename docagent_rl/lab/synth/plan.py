"""The content of one document, drawn from its seed: its sections, and the sentences in them."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from docagent_rl.lab.synth.lexicon import (
    LEXICON,
    Attribute,
    Quantity,
    document_names,
    sentence_case,
)
from docagent_rl.lab.synth.model import (
    Block,
    Chart,
    Entity,
    Fact,
    Prose,
    ReportSection,
    Table,
    TableKind,
)
from docagent_rl.lab.synth.settings import PROFILES, DocumentDifficulty, SynthSettings

QUARTERS = ("Q1", "Q2", "Q3", "Q4")
_SLIDES = 0.25
"""Share of documents whose pages are slides."""
_YEARS_BACK = 3


class DocumentPlan:
    """A document: everything it can say, before the layout decides how many chapters fit.

    The same seed, index (from 0) and difficulty give the same plan, whatever the size of the
    corpus.
    """

    def __init__(self, settings: SynthSettings, index: int) -> None:
        self.index = index
        self.difficulty = settings.difficulty(index)
        self.rng = rng = random.Random(f"plan/{settings.seed}/{index}/{self.difficulty}")
        self.easy = self.difficulty is DocumentDifficulty.EASY
        self.hard = self.difficulty is DocumentDifficulty.HARD
        profile = PROFILES[self.difficulty]
        self.theme = rng.choice(LEXICON.themes)
        self.year = rng.randint(2012, 2024)
        self.report = f"{self.theme.report} {self.year}"
        self._names = iter(document_names(settings.seed, index))
        self._keys = Counter[str]()
        self.stem = next(self._names)
        self.doc_id = f"{index:05d}-{self.stem.lower()}-{self.theme.key}-{self.year}"
        self.company = f"{self.stem} {rng.choice(self.theme.companies)}"
        self.hubs = [next(self._names) for _ in range(profile.hubs)]
        count = rng.randint(*profile.units)
        self.units = [Entity(next(self._names), rng.choice(self.hubs)) for _ in range(count)]
        self.chapters = [
            list(self._chapter(number, unit)) for number, unit in enumerate(self.units)
        ]
        """One chapter (heading and subsections) per unit; the layout prints as many as fit."""
        self.slides = rng.random() < _SLIDES
        fewest, most = profile.pages
        self.pages = fewest, rng.randint(fewest + 1, most)
        """Minimum and target number of pages."""
        self.absent = next(self._names), next(self._names)
        """Names that occur in no document."""
        self.front = list(self._front())
        self.back = list(self._back())

    def sections(self, chapters: int, back: int) -> list[ReportSection]:
        """Return the sections with the first `chapters` chapters and the first `back` closing
        sections.
        """
        middle = [section for chapter in self.chapters[:chapters] for section in chapter]
        return [*self.front, *middle, *self.back[:back]]

    def _front(self) -> Iterator[ReportSection]:
        theme = self.theme
        first, second = theme.yearly
        title = f"The year {self.year} at a glance"
        yield self._section(title, 0, self._prose(self.company), self._yearly_table(first))
        if not self.easy:
            title = f"{sentence_case(second.noun)} by {theme.unit}"
            yield self._section(title, 0, self._prose(self.company), self._yearly_table(second))
        title = sentence_case(f"{theme.hubs} and their equipment")
        yield self._section(
            title, 0, self._prose(f"the network of {theme.hubs}"), self._hub_table()
        )

    def _back(self) -> Iterator[ReportSection]:
        if not self.easy:
            subjects = (self.company, "the board")
            yield self._section(f"Outlook for {self.year + 1}", 0, *map(self._prose, subjects))
            subjects = (f"the statistics office of {self.stem}", "the team of editors")
            yield self._section("Definitions and methods", 0, *map(self._prose, subjects))

    def _chapter(self, number: int, unit: Entity) -> Iterator[ReportSection]:
        """Write the chapter about one unit; in easy documents it has either a chart or a table, not
        both.
        """
        phrase = self._phrase(unit)
        link = self.theme.hub_statement.format(
            unit=phrase, Unit=sentence_case(phrase), hub=unit.hub
        )
        intro = Prose(f"hub/{unit.name}", f"{paragraph(self.rng, phrase, 2)} {link}")
        extra = [self._prose(phrase)] if self.hard else []
        yield self._section(sentence_case(phrase[4:]), 0, intro, *extra)
        yield self._section(
            f"Staff and training at {unit.name}", 1, self._facts(unit, LEXICON.staff)
        )
        yield self._section(
            f"Premises and contracts of {unit.name}", 1, self._facts(unit, LEXICON.premises)
        )
        if not self.easy or number % 2 == 0:
            yield self._chart_section(unit, self.theme.charted[number % 2])
        if not self.easy or number % 2 == 1:
            yield self._section(f"Quarterly figures of {unit.name}", 1, self._quarterly_table(unit))

    def _phrase(self, unit: Entity) -> str:
        return f"the {unit.name} {self.theme.unit}"

    def _chart_section(self, unit: Entity, measure: Quantity) -> ReportSection:
        values = tuple(distinct_numbers(self.rng, measure, len(QUARTERS)))
        caption = f"{measure.heading} of {self._phrase(unit)} by quarter, {self.year}."
        if not self.hard:
            data = "; ".join(
                f"{label} {value}" for label, value in zip(QUARTERS, values, strict=True)
            )
            caption += f" Data: {data}."
        chart = Chart(
            self._key("chart"), caption, QUARTERS, values, measure, unit.name, not self.hard
        )
        prose = self._prose(f"the {unit.name} site")
        return self._section(f"{measure.title} at {unit.name}", 1, prose, chart)

    def _yearly_table(self, measure: Quantity) -> Table:
        years = range(self.year - _YEARS_BACK, self.year + 1)
        names = [unit.name for unit in self.units]
        caption = f"{measure.heading} by {self.theme.unit}, {years[0]} to {years[-1]}."
        header = (self.theme.unit.capitalize(), *map(str, years))
        return self._table("yearly", caption, header, names, [measure] * len(years))

    def _hub_table(self) -> Table:
        caption = f"{sentence_case(self.theme.hubs)} in service at the end of {self.year}."
        measures = self.theme.hub_measures
        header = (self.theme.hub.capitalize(), *(measure.heading for measure in measures))
        return self._table("hubs", caption, header, self.hubs, measures)

    def _quarterly_table(self, unit: Entity) -> Table:
        caption = f"Quarterly figures of {self._phrase(unit)}, {self.year}."
        measures = self.theme.quarterly
        header = ("Quarter", *(measure.heading for measure in measures))
        return self._table("quarterly", caption, header, QUARTERS, measures, unit.name)

    def _table(
        self,
        kind: TableKind,
        caption: str,
        header: tuple[str, ...],
        names: Sequence[str],
        measures: Sequence[Quantity],
        unit: str = "",
    ) -> Table:
        columns = [distinct_numbers(self.rng, measure, len(names)) for measure in measures]
        rows = tuple(zip(names, *columns, strict=True))
        return Table(self._key("table"), kind, caption, header, rows, tuple(measures), unit)

    def _facts(self, unit: Entity, attributes: tuple[Attribute, ...]) -> Prose:
        words = {"unit": self._phrase(unit), "company": self.company, "year": self.year}
        facts = []
        for attribute in attributes:
            place = next(self._names) if attribute.kind == "place" else ""
            facts.append(
                attribute_fact(self.rng, attribute, words, place=place, with_decoy=self.hard)
            )
        return Prose(self._key("facts"), " ".join(fact.statement for fact in facts), tuple(facts))

    def _prose(self, subject: str) -> Prose:
        sentences = self.rng.randint(2, 3) if self.easy else self.rng.randint(3, 5)
        return Prose(self._key("prose"), paragraph(self.rng, subject, sentences))

    def _section(self, title: str, level: int, *blocks: Block) -> ReportSection:
        return ReportSection(self._key("section"), title, level, blocks)

    def _key(self, prefix: str) -> str:
        self._keys[prefix] += 1
        return f"{prefix}/{self._keys[prefix]}"


def format_number(value: float | Decimal, decimals: int) -> str:
    """Return a number as reports print it, with commas as thousands separators: `1,240` or
    `34.2`.
    """
    return f"{value:,.{decimals}f}"


def distinct_numbers(rng: random.Random, measure: Quantity, count: int) -> list[str]:
    """Draw `count` different values of a measure, in printed form."""
    scale = 10**measure.decimals
    steps = rng.sample(range(round(measure.low * scale), round(measure.high * scale) + 1), count)
    return [format_number(step / scale, measure.decimals) for step in steps]


def attribute_fact(
    rng: random.Random,
    attribute: Attribute,
    words: Mapping[str, object],
    *,
    place: str,
    with_decoy: bool,
) -> Fact:
    """Draw the value of `attribute` and put it into words.

    `words` fill its templates: `unit`, `company` and `year`. `place` is the value if the attribute
    is a place. With a decoy, the figure of another year is stated too, which never equals the
    value.
    """
    value = place or _value(rng, attribute)
    decoy = place or _value(rng, attribute)
    while decoy == value != place:
        decoy = _value(rng, attribute)
    if attribute.kind == "year":
        decoy = str(int(value) + rng.randint(3, 12))  # a renovation comes after the opening
    slots = {**words, "Unit": sentence_case(str(words["unit"])), "value": value, "decoy": decoy}
    templates = [attribute.statement, attribute.decoy] if with_decoy else [attribute.statement]
    statement = " ".join(template.format(**slots) for template in templates if template)
    return Fact(
        value, statement, tuple(question.format(**slots) for question in attribute.questions)
    )


def _value(rng: random.Random, attribute: Attribute) -> str:
    if attribute.kind == "code":
        letters = "".join(rng.choice("ABCDEFGHKLMNPRSTUVWXYZ") for _ in range(2))
        return f"{letters}-{rng.randint(1000, 9999)}"
    if attribute.kind == "year":
        return str(rng.randint(int(attribute.low), int(attribute.high)))
    return format_number(rng.uniform(attribute.low, attribute.high), attribute.decimals)


def paragraph(rng: random.Random, subject: str, sentences: int) -> str:
    """Return up to nine sentences about `subject` that contain no digits."""
    filler = LEXICON.filler
    opener = f"{rng.choice(filler.openers)}, {rng.choice(filler.reasons)}."
    # no topic occurs twice in a paragraph, since that would sound repetitive
    topics = rng.sample(filler.topics, len(filler.topics))
    text = " ".join([opener, *rng.sample(filler.followers, sentences - 1)])
    while "{topic}" in text:
        text = text.replace("{topic}", topics.pop(), 1)
    while "{adjective}" in text:
        text = text.replace("{adjective}", rng.choice(filler.adjectives), 1)
    return sentence_case(text.replace("{subject}", subject))

"""Draws the content of one document from its seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from docagent_rl.lab.synth.facts import attribute_fact, distinct_numbers, sentence_case
from docagent_rl.lab.synth.lexicon import PREMISES, STAFF, STAFF_TIME, THEMES, Attribute, Theme
from docagent_rl.lab.synth.model import (
    Block,
    Chart,
    ChartKind,
    DocumentPlan,
    Fact,
    Measure,
    PageFormat,
    Prose,
    Section,
    Table,
    TableKind,
    Unit,
)
from docagent_rl.lab.synth.names import NamePool
from docagent_rl.lab.synth.prose import paragraph
from docagent_rl.lab.synth.settings import PROFILES, Difficulty, SynthSettings

QUARTERS = ("Q1", "Q2", "Q3", "Q4")
_FORMATS = {PageFormat.A4: 5, PageFormat.LETTER: 2, PageFormat.LANDSCAPE: 2, PageFormat.SLIDE: 2}
_HUBS = {Difficulty.EASY: 3, Difficulty.MEDIUM: 5, Difficulty.HARD: 7}
_YEARS_BACK = 3


def plan_document(settings: SynthSettings, index: int) -> DocumentPlan:
    """Draw document `index` (from 0): everything it says, before the layout decides how much of it fits.

    The same seed, index and difficulty give the same plan, whatever the size of the corpus.

    Raises:
        UserError: `index` is beyond the names that can be coined.
    """
    names = NamePool(settings.seed).block(index)
    difficulty = settings.difficulty(index)
    rng = random.Random(f"plan/{settings.seed}/{index}/{difficulty}")
    return _Planner(rng, names, index, difficulty).plan()


class _Planner:
    """Holds what all parts of one document share while it is drawn."""

    def __init__(self, rng: random.Random, names: list[str], index: int, difficulty: Difficulty) -> None:
        self.rng, self.index, self.difficulty = rng, index, difficulty
        self.profile = PROFILES[difficulty]
        self.theme: Theme = rng.choice(THEMES)
        self.year = rng.randint(2012, 2024)
        self._names = iter(names)
        self.stem = next(self._names)
        self.company = f"{self.stem} {rng.choice(self.theme.companies)}"
        self.hubs = [next(self._names) for _ in range(_HUBS[difficulty])]
        count = rng.randint(*self.profile.units)
        self.units = [Unit(next(self._names), rng.choice(self.hubs)) for _ in range(count)]
        self._keys: dict[str, int] = {}

    def plan(self) -> DocumentPlan:
        theme, (fewest, most) = self.theme, self.profile.pages
        chapters = tuple(tuple(self._chapter(number, unit)) for number, unit in enumerate(self.units))
        formats = self.rng.choices(list(_FORMATS), weights=list(_FORMATS.values()))
        return DocumentPlan(
            index=self.index,
            doc_id=f"{self.index:05d}-{self.stem.lower()}-{theme.key}-{self.year}",
            company=self.company,
            report=f"{theme.report} {self.year}",
            year=self.year,
            theme=theme.key,
            difficulty=self.difficulty,
            page_format=formats[0],
            pages=(fewest, self.rng.randint(fewest + 1, most)),
            units=tuple(self.units),
            absent=(next(self._names), next(self._names)),
            front=tuple(self._front()),
            chapters=chapters,
            back=tuple(self._back()),
        )

    def _front(self) -> Iterator[Section]:
        theme, first, second = self.theme, *self.theme.yearly
        yield self._section(
            f"The year {self.year} at a glance", 0, self._prose(self.company), self._yearly_table(first)
        )
        if self.difficulty is not Difficulty.EASY:
            title = f"{sentence_case(second.noun)} by {theme.unit}"
            yield self._section(title, 0, self._prose(self.company), self._yearly_table(second))
        yield self._section(
            sentence_case(f"{theme.hubs} and their equipment"),
            0,
            self._prose(f"the network of {theme.hubs}"),
            self._hub_table(),
        )

    def _back(self) -> Iterator[Section]:
        if self.difficulty is not Difficulty.EASY:
            subjects = (self.company, "the board")
            yield self._section(f"Outlook for {self.year + 1}", 0, *map(self._prose, subjects))
            subjects = (f"the statistics office of {self.stem}", "the team of editors")
            yield self._section("Definitions and methods", 0, *map(self._prose, subjects))

    def _chapter(self, number: int, unit: Unit) -> Iterator[Section]:
        """The chapter on one unit; easy documents give each unit either a chart or a table, not both."""
        phrase = f"the {unit.name} {self.theme.unit}"
        link = self.theme.hub_statement.format(unit=phrase, Unit=sentence_case(phrase), hub=unit.hub)
        intro = Prose(f"hub/{unit.name}", f"{paragraph(self.rng, phrase, 2)} {link}")
        extra = [self._prose(phrase)] if self.difficulty is Difficulty.HARD else []
        yield self._section(sentence_case(phrase[4:]), 0, intro, *extra)
        yield self._section(f"Staff and training at {unit.name}", 1, self._fact_prose(unit, STAFF))
        yield self._section(f"Premises and contracts of {unit.name}", 1, self._fact_prose(unit, PREMISES))
        easy = self.difficulty is Difficulty.EASY
        if not easy or number % 2 == 0:
            yield self._chart_section(unit, self.theme.charted[number % 2], number)
        if not easy or number % 2 == 1:
            yield self._section(f"Quarterly figures of {unit.name}", 1, self._quarterly_table(unit))
        if self.difficulty is Difficulty.HARD and number % 3 == 0:
            yield self._section(f"Use of staff time at {unit.name}", 1, self._pie_chart(unit))

    def _chart_section(self, unit: Unit, measure: Measure, number: int) -> Section:
        kind = (ChartKind.BAR, ChartKind.LINE)[number // 2 % 2]
        values = distinct_numbers(self.rng, measure, len(QUARTERS))
        caption = f"{measure.heading} of the {unit.name} {self.theme.unit} by quarter, {self.year}."
        chart = self._chart(kind, caption, QUARTERS, values, measure, unit)
        title = sentence_case(measure.noun.removeprefix("number of "))
        return self._section(f"{title} at {unit.name}", 1, self._prose(f"the {unit.name} site"), chart)

    def _pie_chart(self, unit: Unit) -> Chart:
        while True:  # wedges big enough for a label, and no two alike
            cuts = sorted(self.rng.sample(range(10, 91), len(self.theme.activities) - 1))
            shares = [high - low for low, high in zip([0, *cuts], [*cuts, 100], strict=True)]
            if min(shares) >= 8 and len(set(shares)) == len(shares):
                break
        caption = (
            f"Use of staff time at the {unit.name} {self.theme.unit} by activity, {self.year} (percent)."
        )
        values = [f"{share}%" for share in shares]
        return self._chart(ChartKind.PIE, caption, self.theme.activities, values, STAFF_TIME, unit)

    def _chart(
        self,
        kind: ChartKind,
        caption: str,
        labels: tuple[str, ...],
        values: list[str],
        measure: Measure,
        unit: Unit,
    ) -> Chart:
        in_caption = not self.profile.chart_only
        key = self._key("chart")
        return Chart(key, kind, caption, labels, tuple(values), measure, unit.name, in_caption)

    def _yearly_table(self, measure: Measure) -> Table:
        years = range(self.year - _YEARS_BACK, self.year + 1)
        columns = [distinct_numbers(self.rng, measure, len(self.units)) for _ in years]
        rows = tuple((unit.name, *cells) for unit, *cells in zip(self.units, *columns, strict=True))
        caption = f"{measure.heading} by {self.theme.unit}, {years[0]} to {years[-1]}."
        header = (self.theme.unit.capitalize(), *map(str, years))
        return Table(self._key("table"), TableKind.YEARLY, caption, header, rows, (measure,))

    def _hub_table(self) -> Table:
        measures = self.theme.hub_measures
        columns = [distinct_numbers(self.rng, measure, len(self.hubs)) for measure in measures]
        rows = tuple(zip(self.hubs, *columns, strict=True))
        caption = f"{sentence_case(self.theme.hubs)} in service at the end of {self.year}."
        header = (self.theme.hub.capitalize(), *(measure.heading for measure in measures))
        return Table(self._key("table"), TableKind.HUBS, caption, header, rows, measures)

    def _quarterly_table(self, unit: Unit) -> Table:
        measures = self.theme.quarterly
        columns = [distinct_numbers(self.rng, measure, len(QUARTERS)) for measure in measures]
        rows = tuple(zip(QUARTERS, *columns, strict=True))
        caption = f"Quarterly figures of the {unit.name} {self.theme.unit}, {self.year}."
        header = ("Quarter", *(measure.heading for measure in measures))
        key = self._key("table")
        return Table(key, TableKind.QUARTERLY, caption, header, rows, measures, unit.name)

    def _fact_prose(self, unit: Unit, attributes: tuple[Attribute, ...]) -> Prose:
        facts: tuple[Fact, ...] = tuple(
            attribute_fact(
                self.rng,
                attribute,
                unit=f"the {unit.name} {self.theme.unit}",
                company=self.company,
                year=self.year,
                place=next(self._names) if attribute.name == "office" else "",
                with_decoy=self.profile.distractors,
            )
            for attribute in attributes
        )
        return Prose(self._key("facts"), " ".join(fact.statement for fact in facts), facts)

    def _prose(self, subject: str) -> Prose:
        sentences = self.rng.randint(2, 3) if self.difficulty is Difficulty.EASY else self.rng.randint(3, 5)
        return Prose(self._key("prose"), paragraph(self.rng, subject, sentences))

    def _section(self, title: str, level: int, *blocks: Block) -> Section:
        return Section(self._key("section"), title, level, blocks)

    def _key(self, prefix: str) -> str:
        self._keys[prefix] = self._keys.get(prefix, 0) + 1
        return f"{prefix}/{self._keys[prefix]}"

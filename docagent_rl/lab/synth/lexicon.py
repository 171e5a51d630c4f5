"""What synthetic reports speak of: four themes, the facts of a unit, the quantities of tables and charts.

Templates use `{unit}` ("the Brenoka division"), `{Unit}` (the same at the start of a sentence), `{company}`,
`{year}`, `{value}`, `{decoy}` (a figure of another year) and `{hub}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.lab.synth.model import Measure


class ValueKind(StrEnum):
    """How the value of an attribute is drawn."""

    NUMBER = "number"
    YEAR = "year"
    CODE = "code"
    PLACE = "place"


@dataclass(frozen=True)
class Attribute:
    """A fact that every unit has."""

    name: str
    kind: ValueKind
    statement: str
    decoy: str
    """A sentence about another year, used in hard documents; empty if there is none."""
    questions: tuple[str, ...]
    low: float = 0
    high: float = 0
    decimals: int = 0


@dataclass(frozen=True)
class Theme:
    """A kind of report."""

    key: str
    report: str
    companies: tuple[str, ...]
    """What follows the coined name of the organisation."""
    unit: str
    units: str
    hub: str
    hubs: str
    hub_statement: str
    hub_clause: str
    """Names the hub without its name: "the depot that supplies {unit}"."""
    yearly: tuple[Measure, ...]
    quarterly: tuple[Measure, ...]
    charted: tuple[Measure, ...]
    hub_measures: tuple[Measure, ...]
    activities: tuple[str, ...]
    """Wedges of the pie chart of staff time."""


STAFF = (
    Attribute(
        "headcount",
        ValueKind.NUMBER,
        "{Unit} employed {value} people at the end of {year}.",
        "A year earlier the number had been {decoy}.",
        (
            "How many people did {unit} of {company} employ at the end of {year}?",
            "What was the headcount of {unit} of {company} at the end of {year}?",
        ),
        90,
        4900,
    ),
    Attribute(
        "training",
        ValueKind.NUMBER,
        "Staff of {unit} completed {value} hours of training in {year}.",
        "In the year before, {decoy} hours had been recorded.",
        (
            "How many hours of training did the staff of {unit} of {company} complete in {year}?",
            "What number of training hours was completed by staff of {unit} of {company} in {year}?",
        ),
        1200,
        19500,
    ),
    Attribute(
        "inspections",
        ValueKind.NUMBER,
        "Safety inspectors visited {unit} {value} times in {year}.",
        "The year before there had been {decoy} visits.",
        (
            "How many times did safety inspectors visit {unit} of {company} in {year}?",
            "How often was {unit} of {company} visited by safety inspectors in {year}?",
        ),
        11,
        89,
    ),
)

PREMISES = (
    Attribute(
        "office",
        ValueKind.PLACE,
        "The main office of {unit} is in {value}.",
        "",
        (
            "Where is the main office of {unit} of {company}?",
            "In which town does {unit} of {company} have its main office?",
        ),
    ),
    Attribute(
        "opened",
        ValueKind.YEAR,
        "{Unit} was opened in {value}.",
        "It was last renovated in {decoy}.",
        ("In which year was {unit} of {company} opened?", "When was {unit} of {company} opened?"),
        1951,
        1998,
    ),
    Attribute(
        "area",
        ValueKind.NUMBER,
        "Its buildings cover {value} square metres.",
        "Before the last extension they covered {decoy} square metres.",
        (
            "How many square metres do the buildings of {unit} of {company} cover?",
            "What area, in square metres, is covered by the buildings of {unit} of {company}?",
        ),
        2100,
        48000,
    ),
    Attribute(
        "budget",
        ValueKind.NUMBER,
        "For {year} the board approved a budget of EUR {value} million for {unit}.",
        "The budget of the year before was EUR {decoy} million.",
        (
            "What budget, in EUR million, did the board approve for {unit} of {company} for {year}?",
            "How large was the approved {year} budget of {unit} of {company}, in EUR million?",
        ),
        4,
        95,
        1,
    ),
    Attribute(
        "contract",
        ValueKind.CODE,
        "Maintenance work at {unit} is covered by framework contract {value}.",
        "Contract {decoy}, which came before it, has expired.",
        (
            "Which framework contract covers maintenance work at {unit} of {company}?",
            "What is the number of the framework contract for maintenance at {unit} of {company}?",
        ),
    ),
)

_CAPACITY = Measure("storage capacity", "tonnes", 1100, 9900, 0)
_POWER = Measure("connected load", "kW", 210, 4800, 0)

THEMES = (
    Theme(
        key="annual-report",
        report="Annual Report",
        companies=("Logistics Group", "Freight Holdings", "Trading Company"),
        unit="division",
        units="divisions",
        hub="depot",
        hubs="depots",
        hub_statement="{Unit} draws its supplies from the {hub} depot.",
        hub_clause="the depot that supplies {unit}",
        yearly=(
            Measure("revenue", "EUR million", 12, 180, 1),
            Measure("operating profit", "EUR million", 1, 24, 1),
        ),
        quarterly=(
            Measure("number of orders", "", 1200, 9800, 0),
            Measure("number of returns", "", 31, 480, 0),
            Measure("overtime", "hours", 210, 3900, 0),
        ),
        charted=(
            Measure("energy use", "MWh", 110, 960, 0),
            Measure("fuel consumption", "thousand litres", 21, 98, 1),
        ),
        hub_measures=(_CAPACITY, _POWER, Measure("number of loading docks", "", 11, 64, 0)),
        activities=("Loading", "Transport", "Planning", "Maintenance"),
    ),
    Theme(
        key="network-review",
        report="Network Operations Review",
        companies=("Railways", "Transit Authority", "Regional Transport"),
        unit="line",
        units="lines",
        hub="workshop",
        hubs="workshops",
        hub_statement="Trains of {unit} are maintained at the {hub} workshop.",
        hub_clause="the workshop that maintains the trains of {unit}",
        yearly=(
            Measure("ridership", "million trips", 2, 48, 1),
            Measure("punctuality", "percent", 71, 98, 1),
        ),
        quarterly=(
            Measure("number of departures", "", 2100, 9900, 0),
            Measure("number of cancellations", "", 21, 390, 0),
            Measure("delay", "hours", 110, 890, 0),
        ),
        charted=(
            Measure("traction energy", "MWh", 240, 980, 0),
            Measure("ticket income", "EUR million", 1, 19, 1),
        ),
        hub_measures=(
            Measure("number of tracks", "", 4, 38, 0),
            _POWER,
            Measure("yearly capacity", "overhauls", 110, 940, 0),
        ),
        activities=("Driving", "Dispatch", "Cleaning", "Maintenance"),
    ),
    Theme(
        key="research-report",
        report="Research Programme Report",
        companies=("Institute of Materials", "Research Foundation", "Centre for Applied Physics"),
        unit="laboratory",
        units="laboratories",
        hub="computing centre",
        hubs="computing centres",
        hub_statement="{Unit} runs its simulations at the {hub} computing centre.",
        hub_clause="the computing centre where {unit} runs its simulations",
        yearly=(
            Measure("external funding", "EUR million", 1, 29, 1),
            Measure("number of publications", "", 21, 290, 0),
        ),
        quarterly=(
            Measure("number of experiments", "", 110, 990, 0),
            Measure("number of failed runs", "", 11, 98, 0),
            Measure("instrument time", "hours", 310, 2100, 0),
        ),
        charted=(
            Measure("helium consumption", "litres", 210, 990, 0),
            Measure("number of samples", "", 120, 960, 0),
        ),
        hub_measures=(
            Measure("number of nodes", "", 64, 990, 0),
            _POWER,
            Measure("storage", "terabytes", 110, 4900, 0),
        ),
        activities=("Experiments", "Analysis", "Teaching", "Outreach"),
    ),
    Theme(
        key="utility-statistics",
        report="Water and Energy Statistics",
        companies=("Water Board", "Regional Utility", "Public Works"),
        unit="district",
        units="districts",
        hub="pumping station",
        hubs="pumping stations",
        hub_statement="{Unit} receives its water from the {hub} pumping station.",
        hub_clause="the pumping station that serves {unit}",
        yearly=(
            Measure("water demand", "million cubic metres", 2, 39, 1),
            Measure("leakage", "percent", 4, 28, 1),
        ),
        quarterly=(
            Measure("number of meter readings", "", 1100, 9900, 0),
            Measure("number of burst pipes", "", 11, 190, 0),
            Measure("repair work", "hours", 120, 1900, 0),
        ),
        charted=(
            Measure("electricity supply", "GWh", 12, 94, 1),
            Measure("number of new connections", "", 31, 480, 0),
        ),
        hub_measures=(
            Measure("flow rate", "litres per second", 110, 980, 0),
            _POWER,
            Measure("number of pumps", "", 4, 38, 0),
        ),
        activities=("Repairs", "Metering", "Laboratory", "Planning"),
    ),
)

STAFF_TIME = Measure("share of staff time", "percent", 0, 100, 0)

THEME_BY_KEY = {theme.key: theme for theme in THEMES}

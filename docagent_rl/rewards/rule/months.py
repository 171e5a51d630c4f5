"""Conversion of German, French and Spanish month names in dates to English."""

import calendar
import re

_NAMES = (
    "januar janvier enero",
    "februar fevrier febrero",
    "marz mars marzo",
    "april avril abril",
    "mai mayo",
    "juni juin junio",
    "juli juillet julio",
    "august aout agosto",
    "september septembre septiembre",
    "oktober octobre octubre",
    "november novembre noviembre",
    "dezember decembre diciembre",
)
_MONTHS = {
    name: calendar.month_name[month]
    for month, names in enumerate(_NAMES, start=1)
    for name in names.split()
}
_DATE = re.compile(
    rf"(?:(?<![\w.])(?:den |le |el )?([0-3]?\d)(?:\.|er|º)? ?(?:de )?)?\b({'|'.join(_MONTHS)})(?: "
    rf"de"
    rf"| del)? (?=[12]\d{{3}}\b)",
    re.IGNORECASE,
)


def respell_months(text: str) -> str:
    """Translate months before a year to English, in a text without accents.

    `3. Mai 2019` becomes `3 May 2019`.
    """
    return _DATE.sub(
        lambda found: f"{found[1] or ''} {_MONTHS[found[2].casefold()]} ".lstrip(), text
    )

"""Identifier-like answers that must match exactly: dates, counts, phone numbers, e-mails and so on.

Doc-V* scores such answers by exact match (appendix C, reward) and names four classes without
defining them; the rules here define them. Edit distance would reward near misses: the similarity of
`14,350` and `14,250` is 0.83.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from enum import StrEnum

_FILE_EXTENSIONS = (
    "pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "odp", "rtf", "txt", "md",
    "csv", "tsv",
    "json", "xml", "yaml", "yml", "html", "htm", "tex", "jpg", "jpeg", "png", "gif", "tif", "tiff",
    "bmp",
    "svg", "webp", "mp3", "mp4", "wav", "avi", "mov", "zip", "gz", "tar", "rar", "7z", "exe", "dll",
    "py",
    "js", "java", "cpp", "sh", "bat", "sql", "log", "ini", "cfg",
)  # fmt: skip


class AnswerKind(StrEnum):
    """The kind of an answer."""

    EMAIL = "email"
    URL = "url"
    """A web address or a file name."""
    DATE = "date"
    """A date, a year, a range of years or a time of day."""
    PHONE = "phone"
    COUNT = "count"
    """A whole number, in digits or in words up to twenty."""
    NUMBER = "number"
    """A decimal, a percentage or an amount of money."""
    TEXT = "text"
    """Anything else, scored by edit distance."""


class IdentifierRule(StrEnum):
    """The set of answer kinds that must match exactly."""

    ALL = "all"
    """All kinds except text."""
    PAPER = "paper"
    """The four that the paper names: dates, counts, phone numbers, e-mails."""

    @property
    def kinds(self) -> frozenset[AnswerKind]:
        """Return the kinds that must match exactly."""
        if self is IdentifierRule.PAPER:
            return frozenset(
                {AnswerKind.EMAIL, AnswerKind.DATE, AnswerKind.PHONE, AnswerKind.COUNT}
            )
        return frozenset(AnswerKind) - {AnswerKind.TEXT}


_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen "
    "seventeen eighteen nineteen twenty"
)
_NUMBER_WORDS: dict[str, str] = {word: str(value) for value, word in enumerate(_WORDS.split())}
_DASHES = re.compile("[\u2010-\u2015\u2212]")

_EMAIL = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@.]{2,}", re.ASCII)
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://|www\.)\S+", re.ASCII)
_FILE = re.compile(r"[^\s/\\]\S*\.([a-z0-9]+)", re.ASCII)

_YEAR = r"[12]\d{3}"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?\s+)?"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_DATES = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        # three groups with one separator; a four-digit year may stand at either end
        rf"(?:{_YEAR}|\d{{1,2}})(?P<sep>[/.-])\d{{1,2}}(?P=sep)(?:{_YEAR}|\d{{1,2}})",
        # two groups: month and year, year and month, day and month
        rf"(?:0?[1-9]|1[0-2])[/-]{_YEAR}|{_YEAR}[/-](?:0[1-9]|1[0-2])|\d{{1,2}}/\d{{1,2}}",
        rf"{_WEEKDAY}{_MONTH}\s*{_DAY}(?:\s*,?\s*{_YEAR})?",
        rf"{_WEEKDAY}{_DAY}(?:\s+of)?\s*{_MONTH}(?:\s*,?\s*{_YEAR})?",
        rf"{_MONTH}\s*,?\s*(?:of\s+)?{_YEAR}",
        rf"{_YEAR}(?:\s*(?:[-/]|to)\s*(?:{_YEAR}|\d{{2}}))?",
        r"(?:[01]?\d|2[0-4]):[0-5]\d(?::[0-5]\d)?\s*(?:[ap]\.?\s?m\.?)?",
    )
)

_PHONE = re.compile(r"[0-9 +().-]+")
# a plain number is not a phone number, however long it is; three digits, a point and four digits
# may be one
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_POINTED_PHONE = re.compile(r"[0-9]{3}\.[0-9]{4}")

_GROUPED = r"\d{1,3}(?:,\d{3})+|\d{1,3}(?:'\d{3})+|\d{1,3}(?: \d{3})+|\d+"
_COUNT = re.compile(rf"([+-]?) ?({_GROUPED})", re.ASCII)
_CURRENCY = (
    r"(?:(?:us|a|au|c|ca|hk|nz|s)?\$|[£€¥₹₩₽¢₺₫₱฿]|usd|eur|gbp|jpy|cny|inr|chf|cad|aud|rs\.?)"
)
_NUMBER = re.compile(
    rf"([+-]?) ?(?:{_CURRENCY} ?)?([+-]?) ?(({_GROUPED})?(?:\.([0-9]+))?) ?"
    rf"(?:%|percent|per cent|pct|{_CURRENCY})?",
    re.ASCII,
)


def fold_kind(text: str) -> str:
    """Return text in NFKC, case-folded, with single spaces, and with a hyphen for every dash."""
    # case folding may undo the normalisation, so normalise again
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _DASHES.sub("-", " ".join(folded.split()))


def kind_of(text: str, rule: IdentifierRule = IdentifierRule.ALL) -> AnswerKind:
    """Return the kind of a gold answer: the first in `_RULES` whose test matches the whole text.

    Answers of a kind that `rule` does not distinguish count as text.
    """
    folded = fold_kind(text)
    return next(
        (kind for kind, (fits, _) in _RULES.items() if kind in rule.kinds and fits(folded)),
        AnswerKind.TEXT,
    )


def norm_id(kind: AnswerKind, text: str) -> str:
    """Return the normal form in which gold answers and predictions of a kind are compared.

    A text that does not look like the kind at all is only folded, so it cannot match by accident.
    """
    return _RULES[kind][1](fold_kind(text))


def _is_address(folded: str) -> bool:
    name = _FILE.fullmatch(folded)
    return bool(_ADDRESS.fullmatch(folded)) or bool(name and name[1] in _FILE_EXTENSIONS)


def _is_phone(folded: str) -> bool:
    if not _PHONE.fullmatch(folded) or "+" in folded[1:]:
        return False
    digits = sum(char.isdigit() for char in folded)
    if not 7 <= digits <= 15 or digits == len(folded):
        return False
    return not _PLAIN_NUMBER.fullmatch(folded) or bool(_POINTED_PHONE.fullmatch(folded))


def _norm_phone(folded: str) -> str:
    if _PHONE.fullmatch(folded):
        plus = "+" if folded.startswith("+") else ""
        return plus + re.sub(r"[ ().-]", "", folded.removeprefix("+"))
    # a count with spaces between its groups looks like a phone number; it must equal the same count
    # written with commas
    return _norm_count(folded)


def _norm_date(folded: str) -> str:
    # a bare number such as 1500 is taken for a year; it must equal the same number written 1,500
    if _COUNT.fullmatch(folded):
        return _norm_count(folded)
    spaced = re.sub(r"[ ,]+", " ", folded).strip()
    tight = re.sub(r" ?([-/.:]) ?", r"\1", spaced)
    return re.sub(r" ?([ap])\.? ?m\.?$", r"\1m", tight) if ":" in tight else tight


def _norm_count(folded: str) -> str:
    if folded in _NUMBER_WORDS:
        return _NUMBER_WORDS[folded]
    found = _COUNT.fullmatch(folded)
    return found[1].replace("+", "") + re.sub(r"[ ,']", "", found[2]) if found else folded


def _number_parts(folded: str) -> tuple[str, str, str] | None:
    found = _NUMBER.fullmatch(folded)
    if not found or not found[3] or (found[1] and found[2]):
        return None
    sign = (found[1] + found[2]).replace("+", "")
    return sign, re.sub(r"[ ,']", "", found[4] or ""), found[5] or ""


def _norm_number(folded: str) -> str:
    parts = _number_parts(folded)
    if parts is None:
        return folded
    sign, whole, decimals = parts
    decimals = decimals.rstrip("0")
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


_RULES: Mapping[AnswerKind, tuple[Callable[[str], object], Callable[[str], str]]] = {
    AnswerKind.EMAIL: (_EMAIL.fullmatch, str),
    AnswerKind.URL: (_is_address, lambda folded: folded.rstrip("/")),
    AnswerKind.DATE: (lambda folded: any(date.fullmatch(folded) for date in _DATES), _norm_date),
    AnswerKind.PHONE: (_is_phone, _norm_phone),
    AnswerKind.COUNT: (
        lambda folded: folded in _NUMBER_WORDS or _COUNT.fullmatch(folded),
        _norm_count,
    ),
    AnswerKind.NUMBER: (_number_parts, _norm_number),
    AnswerKind.TEXT: (lambda _: True, str),
}
"""For each kind, the test of a folded text and its normal form; the first kind that matches
wins.
"""

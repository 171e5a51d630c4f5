"""Words: one spelling for texts that a reader would call the same, stems, and words that carry no answer."""

import re
import unicodedata

_SIGNS = str.maketrans({
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict.fromkeys("\u2018\u2019\u201b\u02bc`", "'"),
    "\u2044": "/", "_": " ", "\u00a0": " ", "\u066b": ".", "\u066c": ",",
})  # fmt: skip
_SUPERSCRIPT = re.compile("(?<=[0-9])([\u00b2\u00b3\u00b9\u2070\u2074-\u2079]+)")
_VULGAR = re.compile("(?<=[0-9])(?=[\u00bc-\u00be\u2150-\u215e])")
# other scripts need their accents
_ACCENTED = re.compile("([A-Za-z])[\u0300-\u036f]+")
_MARKUP = re.compile(r"\\boxed\{([^{}]*)\}|\*{1,3}([^*\n]+)\*{1,3}|\$(-?[0-9][0-9.,]*)\$")
_BULLET = re.compile(r"^[ \t]*(?:[-*\u2022]|[0-9]{1,2}[.)])[ \t]+", re.MULTILINE)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_RESPELT = [
    # where the case of a unit matters: 5 mW are not 5 MW, and 5 Mb not 5 MB
    (r"(?<=[0-9])( ?)m(?=[A-KM-Z]\w{0,2}\b)", r"\1milli"),
    (r"(?<=[0-9])( ?[kKMGT])b\b", r"\1bit"),
    (r"(?<![A-Za-z])([ck]?m|ft)\^?2\b", r"square \1"),
    (r"(?<![A-Za-z])([ck]?m|ft)\^?3\b", r"cubic \1"),
    (r"(?i)(?:\u00b0|\bdegrees?\b) ?(?:(c|f)(?:elsius|ahrenheit)?\b)?", r" degree \1 "),
    (r"(?i)(?<=watt)[- ](?=hours?\b)", ""),
    (r"(?i)\bmph\b", "miles/hour"),
    (r"(?i)\bus (?=dollars?\b)", ""),
    (r"(?i)\bper cent\b", "percent"),
    (r"(?i)(?<=[a-z]) per (?=[a-z])", "/"),
    (r"(?i)\b([ap])\.m\.", r"\1m"),
    (r"(?i)\bbetween (\S{1,20}) and (?=\S{0,3}[0-9])", r"\1-"),
    (r"(?i)(?<=[0-9%]) (?:to|until|till|through) (?=\S{0,3}[0-9])", "-"),
    (r"%(?= ?- ?[0-9.]+ ?%)", ""),
    (r"(?i)\bpp?\.? ?(?=[0-9])", "page "),
    (r"(?i)(?:\bsec\b\.?|\u00a7) ?(?=[0-9])", "section "),
    (rf"(?i)\b([0-3]?[0-9])(?:st|nd|rd|th)?(?: of)? ({_MONTH}\b)", r"\2 \1"),
    (rf"(?i)({_MONTH}\.? [0-3]?[0-9])(?:st|nd|rd|th)\b", r"\1"),
    (r"(?i)^\s*(?:the|an|a(?= (?-i:[a-z0-9$]))) (?=\w|\$)", ""),
    (r"(?i)\bhttps?://(?:www\.)?|\bwww\.", ""),
]
"""Other ways to write a unit or a range, and how it is read."""


def fold(text: str) -> str:
    r"""Return the text with one form of every digit, dash, quote, accent, blank and unit, in its case.

    Markup around an answer goes: `**x**`, `$12$`, `\boxed{x}`, bullets and numbers of a list. So do
    characters that are not seen. Digits of all scripts become ASCII; circled ones stay apart.
    """
    text = _MARKUP.sub(lambda found: next(filter(None, found.groups()), ""), text)
    text = _SUPERSCRIPT.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[1]), text)
    plain = unicodedata.normalize("NFKD", "".join(map(_plain, _VULGAR.sub(" ", text))))
    plain = unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", plain)).translate(_SIGNS)
    plain = _BULLET.sub("", plain) if "\n" in plain.strip() else plain
    for pattern, respelt in _RESPELT:
        plain = re.sub(pattern, respelt, plain)
    return plain


def _plain(char: str) -> str:
    if unicodedata.category(char) == "Cf":
        return ""
    if unicodedata.decomposition(char).startswith("<circle>"):
        return f" {unicodedata.normalize('NFKC', char)} "
    digit = unicodedata.decimal(char, None)
    return char if digit is None else str(digit)


_WORDS = {
    "department": "dept", "government": "govt", "corporation": "corp", "incorporated": "inc",
    "limited": "ltd", "company": "co", "doctor": "dr", "professor": "prof", "saint": "st", "mount": "mt",
    "versus": "vs", "figure": "fig", "color": "colour", "chapter": "ch", "equation": "eq",
    "appendix": "app", "volume": "vol", "university": "univ", "and": "&",
    "january": "jan", "february": "feb", "march": "mar", "april": "apr", "june": "jun", "july": "jul",
    "august": "aug", "september": "sep sept", "october": "oct", "november": "nov", "december": "dec",
}  # fmt: skip
UNITS = {
    "percent": "% pct percentage", "usd": "$ us$ dollar", "eur": "\u20ac euro", "gbp": "\u00a3",
    "jpy": "\u00a5 yen", "inr": "\u20b9 rs rupee", "kilogram": "kg kgs", "gram": "g", "milligram": "mg",
    "tonne": "t", "pound": "lb lbs", "kilometer": "km kilometre", "meter": "m metre",
    "centimeter": "cm centimetre", "millimeter": "mm millimetre", "foot": "ft feet", "square": "sq",
    "liter": "l litre", "milliliter": "ml millilitre", "hour": "h hr hrs", "minute": "min mins",
    "second": "sec secs", "day": "", "year": "yr yrs", "kilobyte": "kb", "megabyte": "mb", "gigabyte": "gb",
    "watt": "w", "kilowatt": "kw", "megawatt": "mw", "kilowatthour": "kwh", "volt": "v", "kilovolt": "kv",
}  # fmt: skip
"""Units, and how else they are written."""
_SPELT = {short: word for word, shorts in (_WORDS | UNITS).items() for short in shorts.split()}
_FEWEST_LETTERS = 4


def stem(word: str) -> str:
    """Return a word in lower case, without plural, its abbreviation written out."""
    low = word.casefold().replace("'", "")
    single = _singular(low)
    return _SPELT.get(low) or _SPELT.get(single, single)


def root(word: str) -> str:
    """Return a stem that also forgets tense: `increase`, `increased` and `increasing` have one root."""
    low = stem(word)
    for ending in ("ing", "ed", "es", "e"):
        if low.endswith(ending) and len(low) - len(ending) >= _FEWEST_LETTERS:
            return low.removesuffix(ending)
    return low


def _singular(word: str) -> str:
    if word == "does" or len(word) < _FEWEST_LETTERS or not re.search("[^sui]s$", word):
        return word
    if word.endswith("ies") and len(word) > _FEWEST_LETTERS:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes", "ches", "shes")) else word[:-1]


def _stems(words: str) -> frozenset[str]:
    return frozenset(map(stem, words.split()))


GRAMMAR = _stems(
    "a an the is are was were be been being has have had having do does did can could might must shall "
    "should will would this that these those it its they their them there here he she his her him we our us "
    "you your i my who whom whose which what where when why how so then thus hence therefore also only just "
    "very well some each own same such still already now namely exactly approximately about around roughly "
    "circa ca approx total overall indeed clearly and maybe perhaps possibly "
    "in on at of from by to near with within for during into per as via through since until after before "
    "across according because due using based behind beside along toward towards upon onto "
    "inside outside following"
)
"""Without "or", "but", "if", "not", "more" and "over", which change what is claimed, and the month May."""
TITLES = _stems("mr mrs ms miss dr prof sir dame president ceo director")
SUFFIXES = _stems("inc corp corporation incorporated ltd limited llc plc gmbh ag company")
FRAME = (
    _stems(
        "answer final correct document report table figure page section text chart graph map image picture "
        "source show shows shown states stated state says said given listed indicates indicated found "
        "located reported described mentioned called named titled known think believe say would guess likely "
        "probably option choice value number amount result question looking statement true yes"
    )
    | TITLES
    | SUFFIXES
)
NUMBERED = _stems(
    "page chapter section figure table appendix part volume book version phase article item note footnote "
    "step equation paragraph line column row slide exhibit annex clause stage level room building block "
    "unit"
)
NEGATORS = _stems(
    "not no never neither nor without none nobody nothing non except excluding excluded exclude unlike "
    "doubt false wrong incorrect untrue hardly barely opposite cannot isn't aren't wasn't weren't don't "
    "doesn't didn't can't couldn't won't wouldn't shouldn't hasn't haven't hadn't mustn't instead rather"
)
YES = _stems("yes yep yeah true correct right indeed affirmative")
NO = _stems("no nope false incorrect wrong untrue negative")

"""Normalisation of spelling, so that equivalent texts compare as equal; stems and roots of
words.
"""

import re
import unicodedata

from docagent_rl.rewards.rule import east, months

_SIGNS = str.maketrans({
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict.fromkeys("\u2018\u2019\u201b\u02bc`", "'"),
    "\u2044": "/", "_": " ", "\u00a0": " ", "\u066b": ".", "\u066c": ",",
})  # fmt: skip
_SUPERSCRIPT = re.compile("(?<=[0-9])([\u00b2\u00b3\u00b9\u2070\u2074-\u2079]+)")
_VULGAR = re.compile("(?<=[0-9])(?=[\u00bc-\u00be\u2150-\u215e])")
# accents are dropped from Latin letters only; other scripts need them
_ACCENTED = re.compile("([A-Za-z])[\u0300-\u036f]+")
HAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Characters of scripts that are written without spaces between words."""
_HAN = re.compile(f"[{HAN}]")
_BULLET = re.compile(r"^[ \t]*(?:[-*\u2022]|[0-9]{1,2}[.)])[ \t]+", re.MULTILINE)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_COMPARED = {
    "\u2265": " at least ", ">=": " at least ", "\u2264": " at most ", "<=": " at most ",
    ">": " more than ",
    "<": " less than ", "\u2260": " not ", "!=": " not ", "\u00ac": " not ",
}  # fmt: skip
_UNEQUAL = re.compile(
    r"[\u2265\u2264\u2260\u00ac]|!=|[<>]=(?=\s*\S{0,2}\d)|(?:\A\s*|(?<=\s))[<>](?=\s*\S{0,2}[\d.])"
    r"|\A[<>](?=\s*\w)"
)
"""Comparison signs, which change what is claimed; those of menus and tags do not match."""
_COMPARING = re.compile("[\u2265\u2264\u2260\u00ac<>!]")
_RESPELT = [
    (re.compile(pattern), respelt)
    for pattern, respelt in (
        # the case of these units matters: 5 mW is not 5 MW, and 5 Mb is not 5 MB
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
        (
            r"(?i)\b(?:between|zwischen|entre) (\S{1,20}) (?:and|und|et|y|e) (?=\S{0,3}[0-9])",
            r"\1-",
        ),
        (r"(?i)(?<=[0-9%]) (?:to|until|till|through|bis|a|al) (?=\S{0,3}[0-9])", "-"),
        (r"%(?= ?- ?[0-9.]+ ?%)", ""),
        (r"(?i)\bpp?\.? ?(?=[0-9])", "page "),
        (r"(?i)(?:\bsec\b\.?|\u00a7) ?(?=[0-9])", "section "),
        (rf"(?i)\b([0-3]?[0-9])(?:st|nd|rd|th)?(?: of)? ({_MONTH}\b)", r"\2 \1"),
        (rf"(?i)({_MONTH}\.? [0-3]?[0-9])(?:st|nd|rd|th)\b", r"\1"),
        (rf"(?i)({_MONTH}),? of (?=[12][0-9]{{3}})", r"\1 "),
        (
            r"(?i)(?<![\w.,])([0-9][0-9.,]*) ?([a-z]{1,12}|%)(?: to |-| - )([0-9][0-9.,]*) "
            r"?\2(?!\w)",
            r"\1-\3 \2",
        ),
        (r"(?<=[0-9]) : (?=[0-9])", ":"),
        (r"(?<=[0-9%])~(?=[0-9])", "-"),
        (r"(?i)\b(?:pour|por) ?(?:cent|ciento)\b", "percent"),
        (r"(?i)^\s*(?:the|an|a(?= (?-i:[a-z0-9$]))) (?=\w|\$)", ""),
        (r"(?i)\bhttps?://(?:www\.)?|\bwww\.", ""),
    )
]
"""Alternative spellings of units and ranges, and their normal form."""


def fold(text: str) -> str:
    r"""Normalise digits, dashes, quotes, accents, spaces and units of a text, keeping its case.

    List bullets, list numbers and invisible characters are removed. Digits of all scripts become
    ASCII; circled digits are separated by spaces.
    """
    plain = text
    if _COMPARING.search(plain):
        plain = _UNEQUAL.sub(lambda sign: _COMPARED[sign[0]], plain)
    # most answers are ASCII, where only punctuation needs to be normalised
    plain = plain.translate(_SIGNS) if plain.isascii() else _latin(plain)
    if "\n" in plain.strip():
        plain = _BULLET.sub("", plain)
    plain = months.respell_months(plain)
    for pattern, respelt in _RESPELT:
        plain = pattern.sub(respelt, plain)
    return plain


def _latin(text: str) -> str:
    """Return text with plain digits, letters and punctuation, and with Chinese numbers
    converted.
    """
    text = _SUPERSCRIPT.sub(lambda raised: "^" + unicodedata.normalize("NFKC", raised[1]), text)
    # insert a space into "2\u00bd" before the fraction is decomposed: 2 1/2 is not 21/2
    text = _VULGAR.sub(" ", text)
    text = "".join(_plain(char) for char in text)
    # decompose to drop accents, then compose again for the scripts that keep them
    text = unicodedata.normalize("NFKD", text)
    text = unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", text))
    text = text.translate(_SIGNS)
    return east.respell_chinese(text) if _HAN.search(text) else text


def _plain(char: str) -> str:
    if unicodedata.category(char) == "Cf":
        return ""
    if unicodedata.decomposition(char).startswith("<circle>"):
        return f" {unicodedata.normalize('NFKC', char)} "
    digit = unicodedata.decimal(char, None)
    return char if digit is None else str(digit)


_WORDS = {
    "department": "dept", "government": "govt", "corporation": "corp", "incorporated": "inc",
    "limited": "ltd", "company": "co", "doctor": "dr", "professor": "prof", "saint": "st",
    "mount": "mt",
    "versus": "vs", "figure": "fig", "color": "colour", "chapter": "ch", "equation": "eq",
    "appendix": "app", "volume": "vol", "university": "univ", "and": "&",
    "january": "jan", "february": "feb", "march": "mar", "april": "apr", "june": "jun",
    "july": "jul",
    "august": "aug", "september": "sep sept", "october": "oct", "november": "nov",
    "december": "dec",
}  # fmt: skip
UNITS = {
    "percent": "% pct percentage prozent porcentaje "
               "pourcent", "usd": "$ us$ dollar", "eur": "\u20ac euro",
    "gbp": "\u00a3",
    "jpy": "\u00a5 yen", "inr": "\u20b9 rs rupee", "kilogram": "kg kgs", "gram": "g",
    "milligram": "mg",
    "tonne": "t", "pound": "lb lbs", "kilometer": "km kilometre", "meter": "m metre",
    "centimeter": "cm centimetre", "millimeter": "mm millimetre", "foot": "ft feet", "square": "sq",
    "liter": "l litre", "milliliter": "ml millilitre", "hour": "h hr hrs", "minute": "min mins",
    "second": "sec secs", "day": "", "year": "yr yrs", "week": "wk wks", "month": "", "decade": "",
    "century": "",
    "mile": "mi", "yard": "yd yds", "inch": "", "ounce": "oz", "gallon": "gal", "acre": "",
    "hectare": "ha",
    "ampere": "amp amps", "ohm": "", "joule": "", "calorie": "", "kilocalorie": "kcal",
    "newton": "",
    "pascal": "",
    "hertz": "hz", "megahertz": "mhz", "gigahertz": "ghz", "cny": "yuan rmb renminbi", "cent": "",
    "kilobyte": "kb", "megabyte": "mb", "gigabyte": "gb",
    "watt": "w", "kilowatt": "kw", "megawatt": "mw", "kilowatthour": "kwh", "volt": "v",
    "kilovolt": "kv",
}  # fmt: skip
"""Units and their alternative spellings."""
_SPELT = {short: word for word, shorts in (_WORDS | UNITS).items() for short in shorts.split()}
_FEWEST_LETTERS = 4


def stem(word: str) -> str:
    """Return a word in lower case and singular, with abbreviations expanded."""
    low = word.casefold().replace("'", "")
    single = _singular(low)
    return _SPELT.get(low) or _SPELT.get(single, single)


_IRREGULAR = {
    past: present
    for present, pasts in {
        "fall": "fell fallen", "write": "wrote written", "rise": "rose risen", "grow": "grew grown",
        "build": "built",
        "lead": "led", "sell": "sold", "hold": "held", "begin": "began begun", "take": "took taken",
        "give": "gave given", "make": "made", "win": "won", "lose": "lost", "pay": "paid",
        "spend": "spent",
        "buy": "bought", "choose": "chose chosen", "draw": "drew drawn", "run": "ran",
        "become": "became",
        "come": "came", "speak": "spoke spoken", "meet": "met", "bring": "brought",
        "drive": "drove driven",
        "teach": "taught", "keep": "kept", "find": "found", "go": "went gone", "know": "knew known",
    }.items()
    for past in pasts.split()
}  # fmt: skip


def root(word: str) -> str:
    """Return a stem without tense: `increase`, `increased` and `increasing` have the same root."""
    low = stem(word)
    low = _IRREGULAR.get(low, low)
    if low.endswith("ied") and len(low) > _FEWEST_LETTERS:
        return low[:-3] + "y"
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

"""Words: one spelling for texts that a reader would call the same, stems, and words that carry no answer."""

from __future__ import annotations

import re
import unicodedata

_SIGNS = str.maketrans({
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict.fromkeys("\u2018\u2019\u201b\u02bc`", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
    "\u2044": "/", "_": " ",
})  # fmt: skip
_SUPERSCRIPT = re.compile("(?<=[0-9])([\u00b2\u00b3\u00b9\u2070\u2074-\u2079]+)")
_VULGAR = re.compile("(?<=[0-9])(?=[\u00bc-\u00be\u2150-\u215e])")
# other scripts need their accents
_ACCENTED = re.compile("([A-Za-z])[\u0300-\u036f]+")
_MARKUP = re.compile(r"\\boxed\{([^{}]*)\}|\*{1,3}([^*\n]+)\*{1,3}|\$(-?[0-9][0-9.,]*)\$")
_BULLET = re.compile(r"^[ \t]*(?:[-*\u2022]|[0-9]{1,2}[.)])[ \t]+", re.MULTILINE)


def fold(text: str) -> str:
    r"""Return the text with one form of every digit, dash, quote, accent and blank, in its case.

    Markup around an answer goes: `**x**`, `$12$`, `\boxed{x}`, bullets and numbers of a list. So do
    characters that are not seen. Digits of all scripts become ASCII; circled ones stay apart.
    """
    text = _MARKUP.sub(lambda found: next(filter(None, found.groups()), ""), text)
    text = _SUPERSCRIPT.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[1]), text)
    plain = unicodedata.normalize("NFKD", "".join(map(_plain, _VULGAR.sub(" ", text))))
    plain = unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", plain)).translate(_SIGNS)
    return _BULLET.sub("", plain) if "\n" in plain.strip() else plain


def _plain(char: str) -> str:
    if char.isascii():
        return char
    if char in "\u066b\u066c":
        return ".,"[char == "\u066c"]
    if unicodedata.category(char) == "Cf":
        return ""
    if unicodedata.decomposition(char).startswith("<circle>"):
        return f" {unicodedata.normalize('NFKC', char)} "
    digit = unicodedata.decimal(char, None)
    return char if digit is None else str(digit)


_ABBREVIATIONS = {
    "dept": "department", "govt": "government", "corp": "corporation", "inc": "incorporated",
    "ltd": "limited", "co": "company", "dr": "doctor", "prof": "professor", "st": "saint", "mt": "mount",
    "vs": "versus", "fig": "figure", "sec": "section", "ch": "chapter", "eq": "equation", "p": "page",
    "pp": "page", "app": "appendix", "vol": "volume", "univ": "university", "assn": "association",
    "intl": "international", "jan": "january", "feb": "february", "mar": "march", "apr": "april",
    "jun": "june", "jul": "july", "aug": "august", "sep": "september", "sept": "september",
    "oct": "october", "nov": "november", "dec": "december", "\u00a7": "section", "&": "and",
}  # fmt: skip
_FEWEST_LETTERS = 4


def stem(word: str) -> str:
    """Return a word in lower case, without plural, its abbreviation written out."""
    low = word.casefold().replace("'", "")
    low = _ABBREVIATIONS.get(low, low)
    return _singular(low)


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


ARTICLES = frozenset({"a", "an", "the"})
PREPOSITIONS = _stems(
    "in on at of from by to near with within for during into per as via through since until after before "
    "about around across according because due using based behind beside along toward towards upon onto "
    "inside outside following"
)
FUNCTION = _stems(
    "is are was were be been being am has have had having do does did can could may might must shall should "
    "will would this that these those it its they their them there here he she his her him we our us you "
    "your i my who whom whose which what where when why how so then thus hence therefore also only just "
    "very well some each own same such still already now namely exactly approximately about around roughly "
    "circa ca approx total overall indeed clearly and maybe perhaps possibly"
)
"""Without "or", "but", "if" and "not", "more", "least" and "over": they change what is claimed."""
GRAMMAR = FUNCTION | PREPOSITIONS
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
LABELLED = NUMBERED | _stems(
    "option group type class grade vitamin plan hepatitis team category schedule zone"
)
"""Words whose next letter is a name: Appendix A."""
NEGATORS = _stems(
    "not no never neither nor without none nobody nothing non except excluding excluded exclude unlike "
    "doubt false wrong incorrect untrue hardly barely opposite cannot isn't aren't wasn't weren't don't "
    "doesn't didn't can't couldn't won't wouldn't shouldn't hasn't haven't hadn't mustn't instead rather"
)
YES = _stems("yes yep yeah true correct right indeed affirmative")
NO = _stems("no nope false incorrect wrong untrue negative")
PERCENT_WORDS = _stems("percent percentage % share proportion rate fraction pct")

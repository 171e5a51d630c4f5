"""Words: their stems, those that carry no answer of their own, and those that turn one round."""

from __future__ import annotations

import re

_BRITISH = (("isation", "ization"), ("ising", "izing"), ("ised", "ized"), ("ise", "ize"))
_SAME_WORDS = {
    "colour": "color", "colours": "colors", "labour": "labor", "favour": "favor", "harbour": "harbor",
    "behaviour": "behavior", "neighbour": "neighbor", "centre": "center", "centres": "centers",
    "theatre": "theater", "metre": "meter", "metres": "meters", "litre": "liter", "litres": "liters",
    "fibre": "fiber", "grey": "gray", "programme": "program", "licence": "license", "defence": "defense",
}  # fmt: skip
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
    """Return a word in lower case, without plural, in American spelling, its abbreviation written out."""
    low = word.casefold().replace("'", "")
    low = _ABBREVIATIONS.get(low, low)
    low = _SAME_WORDS.get(low, low)
    for british, american in _BRITISH:
        if low.endswith(british) and len(low) > len(british) + _FEWEST_LETTERS - 1:
            low = low.removesuffix(british) + american
            break
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

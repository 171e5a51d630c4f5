"""Answers that decline: what says that a document does not hold the answer."""

from __future__ import annotations

import re

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.claims import is_idle
from docagent_rl.rewards.rule.question import Question

_NOT = r"(?:do|does|did|could|can|is|are|was|were|has|have)(?: not|nt) "
_SAYS = (
    r"(?:know|mention|say|state|specify|provide|contain|give|include|report|disclose|have|list|show|indicate"
    r"|appear|find|answer|determine|tell|explain|describe|cover|address)"
)
_DECLINES = re.compile(
    r"\b(?:(?:not|non|isnt|arent) ?answerable|unanswerable|n/?a|unknown"
    r"|not (?:be )?(?:known|determined|answered|found)"
    r"|(?:can ?not|cant|could not|couldnt|unable to|not possible to|impossible to|not able to) "
    r"(?:be )?(?:answer|determin|f[io]u?nd|tell|say|infer|identif|locat|establish|conclud|deduc|see)\w*"
    rf"|{_NOT}{_SAYS}"
    r"|(?:not|isnt|arent|wasnt|werent) (?:enough|sufficient|mentioned|stated|specified|provided|given"
    r"|available|disclosed|reported|included|listed|shown|indicated|applicable|recorded|contained)"
    r"|insufficient (?:information|data|context|evidence)"
    r"|no (?:answer|information|mention|data|evidence|details?|indication|record)"
    r"|none of the \w+ (?:gives?|mentions?|states?|says?|contains?|provides?|lists?)|no idea|not sure)\b",
)
_STRONG = re.compile(
    r"\b(?:(?:not|non|isnt) ?answerable|unanswerable|n/a|(?:can ?not|cant) be (?:answered|determined)"
    r"|(?:do not|dont) know|no idea)\b|\A\W*(?:unknown|no answer|na)\W*\Z",
)
_WHOLE = re.compile(r"\W*(?:none|nothing|null|nil)\W*")
_LONGEST_REFERENCE = 10


def is_refusal(reference: str) -> bool:
    """Whether a reference says that there is no answer."""
    low = _low(reference)
    return len(low.split()) <= _LONGEST_REFERENCE and bool(
        _STRONG.search(low) or _DECLINES.fullmatch(low.strip(" .!"))
    )


def refers_to_refusing(folded: str) -> bool:
    """Whether a text says anywhere, in so many words, that there is no answer."""
    return bool(_STRONG.search(_low(folded)))


def declines(folded: str, question: Question) -> bool:
    """Whether an answer declines and says nothing else that could be an answer."""
    low = _low(folded)
    if _WHOLE.fullmatch(low):
        return True
    rest, times = _DECLINES.subn(" ", low)
    return times > 0 and all(is_idle(atom, question) for atom in read(rest))


def _low(text: str) -> str:
    return " ".join(text.casefold().replace("'", "").replace("\u2019", "").split())

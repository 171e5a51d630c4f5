"""Recognition of references and answers that say that there is no answer."""

import re

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.claims import QuestionHints, is_idle

_NOT = r"(?:do|does|did|could|can|is|are|was|were|has|have)(?: not|nt) "
_SAYS = (
    r"(?:know|mention|say|state|specify|provide|contain|give|include|report|disclose|have|list"
    r"|show|indicate"
    r"|appear|find|answer|determine|tell|explain|describe|cover|address)"
)
_DECLINES = re.compile(
    r"\b(?:(?:not|non|isnt|arent) ?answerable|unanswerable|n/?a|unknown"
    r"|not (?:be )?(?:known|determined|answered|found)"
    r"|(?:can ?not|cant|could not|couldnt|unable to|not possible to|impossible to|not able to) "
    r"(?:be )?(?:answer|determin|f[io]u?nd|tell|say|infer|identif|locat|establish|conclud|deduc"
    r"|see)\w*"
    rf"|{_NOT}{_SAYS}"
    r"|(?:not|isnt|arent|wasnt|werent) (?:enough|sufficient|mentioned|stated|specified|provided"
    r"|given"
    r"|available|disclosed|reported|included|listed|shown|indicated|applicable|recorded|contained)"
    r"|insufficient (?:information|data|context|evidence)"
    r"|no (?:answer|information|mention|data|evidence|details?|indication|sample)"
    r"|none of the \w+ (?:gives?|mentions?|states?|says?|contains?|provides?|lists?)|no idea|not "
    r"sure)\b"
    r"|无法(?:回答|确定|得知|判断|找到)|(?:没有|未|并未|并没有)(?:提到|提及|提供|说明|包含|给出)"
    r"|不知道|\b(?:nicht (?:beantwortbar|angegeben|erwahnt|genannt)|keine angaben?|non mentionne"
    r"|pas (?:mentionne|indique|precise)|no se (?:menciona|indica|especifica|puede (?:determinar"
    r"|responder))|no (?:mencionado|disponible))\b",
)
_SORRY = re.compile(
    r"\b(?:(?:im |i am |we are )?sorry|unfortunately|i apologi[sz]e|(?<=sorry, )but|(?<=apologize,"
    r" )but"
    r"|leider)\b"
)
_STRONG = re.compile(
    r"\b(?:(?:not|non|isnt) ?answerable|unanswerable|n/a|(?:can ?not|cant) be (?:answered"
    r"|determined)"
    r"|(?:do not|dont) know|no idea)\b|无法回答|\A\W*(?:unknown|no answer|na)\W*\Z",
)
_LONGEST_REFERENCE = 10


def says_unanswerable(reference: str) -> bool:
    """Return whether a reference says that there is no answer."""
    low = _low(reference)
    return len(low.split()) <= _LONGEST_REFERENCE and bool(
        _STRONG.search(low) or _DECLINES.fullmatch(low.strip(" .!"))
    )


def mentions_refusal(folded: str) -> bool:
    """Return whether a text says explicitly, anywhere, that there is no answer."""
    return bool(_STRONG.search(_low(folded)))


def declines(folded: str, question: QuestionHints) -> bool:
    """Return whether an answer declines and says nothing else that could be an answer."""
    rest, times = _DECLINES.subn(" ", _SORRY.sub(" ", _low(folded)))
    return times > 0 and all(is_idle(atom, question) for atom in read(rest))


def _low(text: str) -> str:
    return " ".join(text.casefold().replace("'", "").replace("\u2019", "").split())

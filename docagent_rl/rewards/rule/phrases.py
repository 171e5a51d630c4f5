"""The words that carry no answer of their own, and those that turn one round."""

from __future__ import annotations

from docagent_rl.rewards.rule.spelling import stem


def _stems(words: str) -> frozenset[str]:
    return frozenset(map(stem, words.split()))


ARTICLES = frozenset({"a", "an", "the"})
PREPOSITIONS = _stems(
    "in on at of from by to near with within for during under over into per than as via between among "
    "through since until after before about around across according because due using based up behind "
    "beside along toward towards upon onto above below inside outside beyond following"
)
FUNCTION = _stems(
    "is are was were be been being am has have had having do does did can could may might must shall "
    "should will would this that these those it its they them their there here he she his her him we our "
    "us you your i my me who whom whose which what where when why how so then thus hence therefore also "
    "only just very most well more less many some each own same such still already now namely exactly "
    "approximately about around roughly circa ca approx total overall indeed clearly while whereas out if "
    "and or but not"
)
FRAME = _stems(
    "answer final correct document report table figure page section text chart graph map image picture "
    "source show shows shown states stated state says said given listed indicates indicated according "
    "found located reported described mentioned called named titled known think believe say would guess "
    "likely probably option choice value number amount result question based looking statement true yes"
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
TITLES = _stems("mr mrs ms miss dr prof sir dame president ceo director")
SUFFIXES = _stems("inc corp corporation incorporated ltd limited llc plc gmbh ag company")
NEGATORS = _stems(
    "not no never neither nor without none nobody nothing non except excluding excluded exclude unlike "
    "doubt false wrong incorrect untrue hardly barely opposite cannot isn't aren't wasn't weren't don't "
    "doesn't didn't can't couldn't won't wouldn't shouldn't hasn't haven't hadn't mustn't instead rather "
    "other anti besides former formerly previous previously"
)
TURNS = _stems("instead rather except excluding unlike but however whereas while although though")
"""Words that begin a new claim."""
DENIALS = frozenset({("far", "from"), ("ruled", "out"), ("apart", "from"), ("aside", "from")})
"""Two words that deny."""
IDENTIFYING = _stems(
    "it is are was were be been this that these those they could can may might would must answer an so "
    "also then"
)
"""Words that present what follows as the answer."""
NOT_GOVERNING = _stems("as with than following based due because according between among")
"""Prepositions behind which a second answer may hide: as well as."""
GENERIC = _stems(
    "city town village country state county river company firm year month amount total number sum value "
    "kind type colour name title shade island region province republic university bank"
)
"""Nouns before "of" that only say what kind of thing follows: the city of Paris."""
EVERYTHING = _stems("anything everything all everyone anyone nothing none any every")
HEDGES = _stems("either alternatively otherwise whether whatever whichever if depending depends")
UNSURE = _stems("maybe perhaps possibly")
COMPARATORS = _stems("over under above below nearly almost beyond exceeding minimum maximum")
DIFFERENCES = _stems("more fewer less higher lower greater")
YES = _stems("yes yep yeah true correct right indeed affirmative")
NO = _stems("no nope false incorrect wrong untrue negative")
PERCENT_WORDS = _stems("percent percentage % share proportion rate fraction pct")
NUMBER_QUESTIONS = ("how many", "how much", "number of", "count of")

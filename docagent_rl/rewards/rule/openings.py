"""Phrases that open the sentence of an answer: politeness, sources, verbs of perception."""

import re

from docagent_rl.rewards.rule.phrases import SAID, SOURCE, any_of

_EDGE = r"\A[^\w(\[{\"'“$€£+<>≠≥≤-]{0,20}"

POLITE = re.compile(
    _EDGE
    + "(?:"
    + any_of(
        "sure(?: thing)?, certainly, of course, absolutely, okay, ok, alright, all right, well, "
        "hello",
        "hi(?: there)?, hey, thanks, great, good, excellent, perfect, got it, understood, gladly",
        "no problem, no worries, my pleasure, so, thus, hence, therefore, in conclusion, in "
        "summary",
        "in short, to summari[sz]e, overall, finally, consequently, as a result, accordingly",
        "to answer your question, to answer the question",
        "(?:that's |that is |what )?an? (?:great|good|excellent|interesting) question",
        "(?:great|good|excellent|interesting) question, thank you(?: for [\\w ]{1,40})?",
        "thanks for [\\w ]{1,40}",
        "(?:i(?:'d| would|'m| am) )?(?:be )?happy to help(?: (?:you )?with [\\w ]{1,20})?",
        "i can help(?: you)?(?: with [\\w ]{1,20})?, let me (?:help|see|check|look)(?: [\\w "
        "]{1,30})?",
        "natürlich, gerne, klar, sicher, also, bien sûr, d'accord, voici, claro, por supuesto, "
        "seguro",
        "desde luego",
    )
    + r"\s*[!.,:—\u2013]+(?!\d)\s*|"
    + any_of(
        "好的, 当然, 当然可以, 所以, 因此, 综上所述, 综上, 没问题, "
        "您好, 你好, 由此可知, 由此可见, 可以"
    )
    + r"[\uff0c,。\uff01!\uff1a:]\s*)",
    re.IGNORECASE,
)
"""A polite opening, up to the punctuation that ends it."""

_CITING = any_of(
    "based (?:solely |only |entirely |purely )?(?:on|upon), according to, from, in, on, per, given",
    "considering",
    rf"as (?:\w+ly )?(?:we can |you can |can be |i can )?(?:see|{SAID}|indicated|per)(?: (?:in|on"
    rf"|from|by))?",
    "looking (?:at|through), (?:after|upon|by|having) (?:\\w+ly )?\\w+ing, judging (?:by|from)",
    "referring to, using",
    "(?:after|upon|on) (?:a |an )?(?:\\w+ )?(?:review|examination|analysis|inspection|look)",
    "with reference to, reading, within, regarding, through, to answer, to determine, to find, "
    "laut",
    "gemäß, basierend auf, auf (?:der )?(?:grundlage|basis), aufgrund, wie, nach, d['\u2019]après, "
    "selon",
    "sur la base, en se basant, comme, según, de acuerdo con, basado en, basándome en, con base "
    "en, en",
    "dans",
)
CITING = re.compile(
    rf"{_EDGE}{_CITING}\b[^.!?\n:]{{0,160}}?{SOURCE}[^.!?\n:,]{{0,80}}?"
    r"(?:, (?:page|p\.|table|figure) ?\w+)?[,:]\s*",
    re.IGNORECASE,
)
"""A clause that says where the answer was found, up to its comma."""
CITING_EAST = re.compile(
    r"\A[^\w]{0,20}(?:根据|依据|基于|按照|从|由|在|参考|如|查看|通过)[^。\uff01\n\uff0c,\uff1a:]{0,60}"
    r"(?:文档|文件|报告|表格|表|图|图片|图表|页|文章|资料|信息|内容|材料|文本|上下文|截图)[^。\uff01\n\uff0c,\uff1a:]{0,30}[\uff0c,"
    r"\uff1a:]\s*"
    r"|\A[^。\n、]{1,30}に(?:よると|基づくと)、\s*"
)

_SEES = any_of(
    "see, find, found, read, observe, note, conclude, infer, determine, determined, confirm, saw, "
    "tell",
    "say, identified, identify, believe, think, know",
)
_STATES = any_of(
    "states?, says?, shows?, indicates?, reports?, mentions?, notes?, lists?, specifies, reveals?",
    "displays?, gives?, confirms?, stated, suggests?",
)
SEEN = re.compile(
    "|".join(
        (
            rf"\A(?:i|we|you|one) (?:can |could )?(?:clearly |also |now |then )?{_SEES}"
            r"(?: (?:from|in|on) [^,.\n]{1,40}?)?(?: that|:)\s+",
            rf"\Ait (?:can be|is|was) (?:clearly )?{SAID}(?: (?:on|in) (?:the )?[\w ]{{1,30}}?)? "
            rf"that\s+",
            rf"\A(?:the|this|that|your|its) (?:[\w-]+ ){{0,3}}{SOURCE}(?: (?:on"
            rf"|in) (?:the )?[\w ]{{1,20}}?)? "
            rf"(?:clearly |explicitly )?{_STATES}(?: that|:)\s+",
        )
    ),
    re.IGNORECASE,
)
"""Verbs of seeing or stating that introduce the answer."""

"""Word lists by effect on an answer: carry no content, negate it, retract it, or relate to it."""

from docagent_rl.rewards.rule.words import stem


def _stems(words: str) -> frozenset[str]:
    return frozenset(map(stem, words.split()))


GRAMMAR = _stems(
    "a an the is are was were be been being has have had having do does did can must shall "
    "should will would this that these those it its they their them there here he she his her him "
    "we our us "
    "you your i my who whom whose which what where when why how so then thus hence therefore also "
    "only just "
    "very well some each own same still already now namely exactly approximately about around "
    "roughly "
    "circa ca approx total overall clearly and "
    "in on at of from by to with within for during per as via according because due using based "
    "upon onto "
    "inside "
    "der das dem den des ein eine ist sind wurde wird im von vom zum zur auf laut es sich hat "
    "betragt "
    "lautet liegt bei "
    "le la les un une est au aux dans par selon il elle el los una es fue del de en segun du "
    "的 是 在 为 于 了 共 有 该 此 这 和 与 及 约 名 位 个 也 被 由 所 即 我 们 其 因 "
    "\u3067 \u3059 \u306f \u306e \u304c"
)
"""Function words. Missing on purpose: "or", "but", "if", "not", "more" and "over", which change
what is claimed, and "may", which is also a month.
"""
TITLES = _stems("mr mrs ms miss dr prof sir dame president ceo director")
SUFFIXES = _stems("inc corp corporation incorporated ltd limited llc plc gmbh ag company")
FRAME = (
    _stems(
        "answer final correct document report table figure page section text chart graph map image "
        "picture "
        "source show shows shown states stated state says said given listed indicates indicated "
        "found "
        "located reported described mentioned called named titled known think believe say would "
        "option choice value number amount result question looking statement true yes see seen "
        "visible "
        "requested information provided author name title city country place location colour type "
        "category "
        "person "
        "organisation organization material topic method reason price fee head leader written "
        "drawn made "
        "held built "
        "founded published signed headed led based situated headquartered released launched "
        "established "
        "opened data "
        "context content passage slide screenshot diagram shown displayed appears mentions lists "
        "contains "
        "reads took place "
        "文 档 中 根 据 问 题 信 息 内 容 页 面 图 表 提 供 地 点 置 称 时 间 日 期 原 数 量 城 市"
    )
    | TITLES
    | SUFFIXES
)
NUMBERED = _stems(
    "page chapter section figure table appendix part volume book version phase article item note "
    "footnote "
    "step equation paragraph line column row slide exhibit annex clause stage level room building "
    "block "
    "unit"
)
NEGATORS = _stems(
    "not no never neither nor without none nobody nothing non except excluding excluded exclude "
    "unlike "
    "doubt false wrong incorrect untrue hardly barely opposite cannot isn't aren't wasn't weren't "
    "don't "
    "doesn't didn't can't couldn't won't wouldn't shouldn't hasn't haven't hadn't mustn't instead "
    "rather "
    "nicht kein pas 不 没 非 无 未 错"
)
YES = _stems("yes yep yeah true correct right indeed affirmative ja oui si sim")
NO = _stems("no nope false incorrect wrong untrue negative nein nao non")
VERDICTS = {
    **dict.fromkeys(("yes", "true", "ja", "oui", "si", "是", "对"), True),
    **dict.fromkeys(("no", "false", "nein", "non", "否", "错"), False),
}
"""References that mean yes or no."""
REVERSALS = _stems(
    "revoked denied withdrawn expired lapsed cancelled canceled rejected refused failed until "
    "before "
    "formerly previously "
    "former once but however unless if except though although now partly partially initially "
    "originally "
    "never only "
    "ended stopped closed suspended abandoned temporarily sometimes depends"
)
"""Words that retract a verdict."""
RELATIONS = _stems(
    "since until after before behind beside near outside following along across into through "
    "toward "
    "towards beyond "
    "over under above below within past ago earlier later prior"
)
"""Words that relate an answer to their neighbour: "before 2019" is not 2019."""
TURNS = (
    NEGATORS
    | RELATIONS
    | _stems(
        "or nor either if unless but however although though other another others else different "
        "contrary "
        "reverse former "
        "formerly previous previously old ex once almost nearly next adjacent more less fewer "
        "least most "
        "up than half "
        "twice double triple times time multiple divided plus minus squared cubed per each every "
        "some any "
        "many few "
        "several part partly partially portion rest remaining remainder additional extra further "
        "difference gain loss "
        "lost like such similar eg example etc ruled out maybe perhaps possibly probably might may "
        "could "
        "should shall suppose assume "
        "guess whether denied rejected revoked cancelled withdrawn expected planned target "
        "forecast "
        "projected point "
        "percent half quarter third dozen hundred thousand million billion too not "
        "nicht kein keine oder ausser au\u00dfer mehr weniger als uber unter vor nach ohne fast "
        "bis ab "
        "mindestens hochstens statt "
        "pas ne ou sauf plus moins avant apres sans presque moitie o u excepto mas menos antes "
        "despues sin "
        "casi "
        "jan feb mar apr jun jul aug sep oct nov dec may q1 q2 q3 q4 "
        "不 没 非 无 未 否 或 除 外 前 后 超 错 但 若 如 低 高 多 少 半"
    )
)
"""Words that change what an adjacent number claims, or that introduce another one."""

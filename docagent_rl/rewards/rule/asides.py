"""Phrases after an answer: explanations, sources, citations, offers of more help."""

import re

from docagent_rl.rewards.rule.phrases import EDGE, SAID, SOURCE, any_of

ASIDE = re.compile(
    r"^"
    + EDGE
    + r"(?:\d\.\s+)?(?:(?:brief|short|step[- ]by[- ]step|supporting|page|my|relevant|cited) )?"
    + any_of(
        "explanations?, reasoning, rationale, justification, evidence, sources?, references?, "
        "citations?",
        "quotes?, confidence(?: score| level)?, notes?, pages?, location, context, thoughts?, "
        "analysis",
        "steps?, details?, proof, support, why, because, action, question, q, calculation, working",
        "approach, step \\d, erklärung, begründung, quellen?, hinweis, seite, explication, "
        "raisonnement",
        "explicación, razonamiento, fuentes?, justificación, 解释, 说明, 理由",
        "来源, 依据, 参考, 分析, 思考, 推理, 证据, 页码",
        "出处, 置信度, 解析, 问题",
    )
    + r"(?: \([^()\n]{0,40}\))?[\ue003\s]*[:\uff1a]",
    re.IGNORECASE | re.MULTILINE,
)
"""The beginning of a part that explains the answer or cites its source."""

CLOSING = re.compile(
    EDGE
    + r"(?:please )?"
    + any_of(
        "let me know, feel free, i hope, hope (?:this|that|it), is there anything",
        "if you(?:'d|'re| have| need| would| want)?, do you (?:want|need|have), would you like",
        "thank(?:s| you), you're welcome, (?:i(?:'m| am) )?happy to, don't hesitate, glad to",
        "i(?:'d| would) be happy, have a (?:great|nice|good), anything else, ask, reach out, tell "
        "me",
        "good luck, best regards, want me to, shall i, should i, can i help, lassen sie, bei "
        "weiteren",
        "ich hoffe, wenn sie, falls sie, n'hésitez, j'espère, si vous, espero, si necesitas, si "
        "tiene",
        "no dudes, avísame",
    )
    + r"\b[^\n]*|(?:如果您|如果你|如有|希望|请随时|还有其他|需要我|祝您)[^\n]*",
    re.IGNORECASE,
)
"""A sentence that offers help, or hopes to have helped."""

_IT = any_of(
    "this, that, it, these, they",
    "(?:the|this|that) "
    "(?:answer|information|value|figure|number|data|details?|fact|name|date|quote)",
)
SOURCED = re.compile(
    "|".join(
        (
            rf"{EDGE}{_IT} (?:is|was|are|were|can be|could be|has been) (?:\w+ly "
            rf"|also )?{SAID}\b[^\n]*?{SOURCE}[^\n]*",
            rf"{EDGE}{_IT} (?:comes|appears|stands|follows)\b[^\n]*?{SOURCE}[^\n]*",
            rf"{EDGE}(?:you can (?:find|see)|see|source|reference|cf\.?|found|as {SAID}|according "
            rf"to"
            rf"|based on|{SAID} (?:in|on|by))"
            rf"\b[^\n]*?{SOURCE}[^\n]*",
            EDGE + r"\[\d{1,3}\][:.]? [^\n]*",
            EDGE + r"[(\[]?(?:page|p\.|pp\.|table|figure|section|slide|source|seite"
            r"|página) ?\d[\w .,:&-]{0,60}[)\]]?\.?",
            r"(?:该|此|这|以上|上述)?(?:一)?(?:信息|数据|答案|内容|结果)?(?:可以|可)?(?:见|来自|位于|出现在|在|参见|取自)"
            r"[^\n]*[页表图章节档文][^\n]*",
        )
    ),
    re.IGNORECASE,
)
"""A sentence that says where the answer was found."""

_LABELS = any_of(
    "pages?, pp?\\.?, pg\\.?, tables?, figures?, fig\\.?, charts?, graphs?, sections?, sec\\.?, "
    "chapters?",
    "slides?, appendix, paragraphs?, lines?, exhibit, footnote, doc(?:ument)?, seiten?, s\\., "
    "abschnitt",
    "abbildung, tabelle, tableau, páginas?, tabla, figura, sección",
)
_FROM = any_of(
    "see, cf\\.?, sources?:?, ref(?:erence)?[.:]?, from, in, on, as \\w+ (?:in|on|by), according "
    "to, per",
    "via, based on, (?:found|stated|shown|listed) (?:in|on), siehe, voir, véase, ver, vgl\\.?",
)
_MARKERS = "|".join(
    (
        r"[\[【]\^?\d{1,2}(?:\s*,\s*\^?\d{1,2}){0,9}(?:(?<=\b\d)[\u2013-]\d)?[\]】]",
        r"\[\[\d{1,3}\]\]",
        r"【\d+†[^】\n]{0,40}】",
        r"\[\^[\w-]{1,20}\]|\^\[\d+\]",
        r"[\[【](?:citation|cite|ref|doc|source|turn|passage)[ :_#]?\d[\w:.,-]{0,20}[\]】]",
    )
)
_BRACKETS = "|".join(
    (
        r"[\[【](?:citation|cite|ref|doc|source|document|page|p|pg|img|image|passage|context|turn"
        r"|table|figure)\b[^\]】\n]{0,60}[\]】]",
        r"[\[【](?:doc|page|img|image|source|ref|p)_?\d+[\]】]",
        rf"[\[【]{_FROM}\b[^\]】\n]{{0,60}}[\]】]",
        rf"[\[【][^\]】\n\d]{{0,40}}?\b{_LABELS} ?\d[^\]】\n]{{0,40}}[\]】]",
    )
)
_OPEN = r"[(\uff08]"
_INNER = r"[^()\uff08\uff09\n]{0,60}"
_CLOSE = r"[)\uff09]"
_PARENTHESES = "|".join(
    (
        rf"{_OPEN}{_FROM}[ :\uff1a]{_INNER}?{SOURCE}{_INNER}{_CLOSE}",
        rf"{_OPEN}{_INNER}?(?<!\w){_LABELS} ?(?:\d|[a-z]\b){_INNER}{_CLOSE}",
        rf"{_OPEN}(?:the |this )?(?:[\w-]+ ){{0,2}}{SOURCE}{_CLOSE}",
        rf"{_OPEN}(?:见|参见|来源[:\uff1a]?|根据|如)?(?:文档|报告)?"
        rf"(?:第 ?\d+ ?[页章节]|[表图] ?\d+){_INNER}{_CLOSE}",
    )
)
_AS = any_of(
    rf"as (?:\w+ly )?{SAID}, as per, as can be seen, as (?:we|you) can see, as indicated, "
    rf"according to, per",
    rf"{SAID}",
    rf"which (?:is|was|can be) {SAID}, see, from, based on, on, in, laut, wie, selon, según, gemäß",
)
MARKER = re.compile(rf"(?:\s*(?:{_MARKERS}))+(?=[\ue001\ue003*.。\s]*\Z)", re.IGNORECASE)
"""The number of a source after an answer, such as [7]."""
CITATION = re.compile(
    rf"(?:\s*(?:{_BRACKETS}|{_PARENTHESES}))+(?=[\ue003*.。\s]*\Z)"
    rf"|\s*(?:[,;—\u2013]| - )\s*{_AS}\b[^.!?\n,;]{{0,80}}?{SOURCE}[^!?\n;]{{0,60}}(?=[.\s]*\Z)"
    r"|\s*(?:[,;—\u2013]| - )\s*(?:page|p\.|pp\.|table|figure|section|slide"
    r"|seite) ?\d[\d.\u2013-]{0,10}(?=[.\s]*\Z)"
    rf"|\s+(?:as {SAID} (?:in|on|by)|according to) [^.!?\n,;]{{0,60}}?{SOURCE}[^.!?\n,"
    rf";]{{0,40}}(?=[.\s]*\Z)",
    re.IGNORECASE,
)
"""A citation of the answer's source, at the end of the answer."""

"""Phrases that announce an answer: a heading, a label, "the answer is"."""

import re

from docagent_rl.rewards.rule.phrases import EDGE, any_of

_LATIN_NOUN = any_of(
    "answers?, ans, response, result, conclusion, output, solution, prediction, verdict, antwort",
    "ergebnis, réponse, respuesta, risposta, resposta, antwoord, svar, odpowiedź, cevap, jawaban, "
    "ответ",
)
_EAST_NOUN = any_of("答案, 答复, 回答, 正解, 结论, 结果, 答え, 答, 정답, 답변, 답")
_ADJECTIVES = (
    any_of(
        "final, correct, right, short, brief, direct, concise, exact, overall, extracted, "
        "predicted",
        "generated, full, best, complete, simple, quick, one-word, proposed, requested, resulting, "
        "my",
        "your, our, the, a, an, model, computed, calculated, likely, most, endgültige, finale, "
        "richtige",
        "korrekte, kurze, die, das, meine, la, le, mi, ma, una?, l, a, o, het, juiste, правильный",
        "окончательный",
    )
    + r"['\u2019 _-]+"
)
_EAST_ADJECTIVES = (
    any_of("所以, 因此, 故, 综上, 其, 本题, 该问题, 问题, ")
    + "[,\uff0c]?的?"
    + any_of("最终, 正确, 最后, 参考, 最終, 我的, 최종 ?, ")
    + "的?"
)
_AFTER = (
    r"(?: (?:finale|correcte|correcta|final|courte|corta|breve|corretta|correta))?"
    r"(?: (?:to|for) (?:the|your|this|that) (?:given |user )?(?:question|query|problem)| (?:here"
    r"|text"
    r"|value))?(?: \([^()\n]{0,40}\))?"
)
_NAME = rf"(?:(?:{_ADJECTIVES}){{0,4}}{_LATIN_NOUN}\b{_AFTER}|{_EAST_ADJECTIVES}{_EAST_NOUN})"

HEAD = re.compile(
    rf"^{EDGE}(?:here(?: is|'s|\u2019s),? )?{_NAME}\]?(?: is| as follows| below|是|为"
    rf"|如下)?[^\w\n]{{0,20}}$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that announces the answer below it."""

LABEL = re.compile(
    rf"^{EDGE}(?:\d\.\s+)?(?:here(?: is|'s|\u2019s),? )?(?:{_NAME}|a(?=[\ue003:])|tl;?dr)"
    rf"[\ue003\]\s]*?(?: is| are| as follows|是|为|如下)?\s*"
    rf"(?::|\uff1a|=(?!=)|(?<=\s)[-\u2013—](?=\s)|->|→)[\ue003 ]*"
    rf"|^{EDGE}\[{_NAME}\][\ue003 ]*",
    re.IGNORECASE | re.MULTILINE,
)
"""The beginning of a line that announces the answer after it."""

_TO_WHAT = r"(?: (?:to|for|of|on|in) [^.:\n]{1,100}?)?(?:,[^,.:\n]{1,80},)?"
_TO_WHAT_ELSEWHERE = r"(?: (?:auf|à|a|zu) [^.:\n]{1,80}?)?"
STATED = re.compile(
    "|".join(
        (
            rf"\b(?:the|my|our|your|its) (?:(?:final|correct|right|short|exact|best|most likely"
            rf"|likely"
            rf"|overall) ){{0,2}}"
            rf"(?:answer|response)(?: (?:that )?(?:i|we|you)(?:'re| are)? \w+(?: "
            rf"for)?)?{_TO_WHAT} (?:is"
            rf"|was|would be|should be|must be|will be)\b(?: that\b)?"
            r"(?: simply| therefore| thus| clearly| as follows| likely| most likely)?[:,]?\s*",
            rf"\b(?:the )?(?:final |correct )?answer{_TO_WHAT}:\s*",
            r"\b(?:i (?:would )?(?:answer|conclude)|we (?:get|conclude|obtain))"
            r"(?: with| that)?:\s*",
            rf"\b(?:die|meine) (?:\w+ )?antwort{_TO_WHAT_ELSEWHERE} (?:ist|lautet|wäre)\b(?: "
            rf"also)?:?\s*",
            rf"\b(?:lautet|ist) (?:also |daher |somit )?die (?:\w+ "
            rf")?antwort{_TO_WHAT_ELSEWHERE}:?\s+",
            rf"\bla (?:bonne )?réponse(?: (?:finale|correcte))?{_TO_WHAT_ELSEWHERE} est\b ?:?\s*",
            rf"\bla respuesta(?: (?:final|correcta))?{_TO_WHAT_ELSEWHERE} (?:es|sería)\b:?\s*",
            r"\bla risposta(?: (?:finale|corretta))? è:?\s*",
            r"\ba resposta(?: (?:final|correta))? é:?\s*",
            r"\bhet (?:juiste )?antwoord is:?\s*",
            r"\b\u043eтв\u0435т\s*[-—\u2013:]\s*",
            rf"{_EAST_ADJECTIVES}答案(?:应该|应|就)?[是为為][\uff1a:]?\s*",
            r"(?:答え|回答|正解)は、?\s*",
            r"(?:정답|답)[은는] ?",
        )
    ),
    re.IGNORECASE,
)
"""Words within a sentence that announce the answer."""

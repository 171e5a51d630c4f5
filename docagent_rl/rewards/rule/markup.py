r"""Markup that models write, taken off: tags, fences, JSON, LaTeX, HTML and Markdown.

What a model puts into a box (`\boxed{x}`, `<answer>x</answer>`) or into bold stands between two
signs after that, so that later rules can find it.
"""

import json
import re

BOX, BOX_END, BOLD, BOLD_END = "\ue000\ue001\ue002\ue003"
"""Signs of private use, which `without_markup` removes from what a model wrote."""
_SIGNS = re.compile("[\ue000-\ue003]")

_MARKS = re.compile(r"[<>`{}\\$#*_\[~=\x08\u25c1\ue000-\ue003]|--|assistantfinal")
_THOUGHT = re.compile(
    r"(?s)\A.*(?:</(?:think|thinking|thought|reasoning|analysis)>|\u25c1/think\u25b7"
    r"|<\|channel\|>final<\|message\|>|assistantfinal(?=\S))",
    re.IGNORECASE,
)
"""All up to the end of thinking."""
_BOX_TAG = re.compile(
    r"<(?P<slash>/?)(?:final[_ -]?)?(?:answer|response|result|solution|output|final)\s*>"
    r"|<\|(?P<side>begin|end)_of_box\|>",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"<\|[a-z_]{1,30}\|>|</?s>|<end_of_turn>|<eos>|\[/?INST\]|</?(?:p|u|i|em|span|div|center|mark)>"
    r"|<sup>[\d,\s]*</sup>|<!--.*?-->",
    re.IGNORECASE,
)
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_FENCE = re.compile(
    r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$|```(?:json|text|markdown|plaintext)?", re.MULTILINE
)
_RULER = re.compile(r"^[ \t]*(?:[-*_=][ \t]?){3,}$", re.MULTILINE)
_HEADING = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+|[ \t]#{1,6}[ \t]*$", re.MULTILINE)
_MARKED = re.compile(r"^#{4} +(?=[^\n]+\s*\Z)", re.MULTILINE)
"""The last line of an answer to GSM8K: `#### 12`."""
# a line that begins with > and a number says more than that number
_QUOTED = re.compile(
    r"^[ \t]*(?:>[ \t]?)+(?!\s*[$\u20ac\u00a3]?\d)|(?<=\n)[ \t]*(?:>[ \t]?)+", re.MULTILINE
)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\)")
_BOLD = re.compile(
    r"\*{2,3}(?=[^\s*])([^*\n]+?)\*{2,3}|(?<!\w)__(?=[^\s_])([^_\n]+)__(?!\w)"
    r"|(?<!`)`([^`\n]+)`(?!`)"
    r"|<(?:b|strong|code)>([^<\n]+)</(?:b|strong|code)>",
    re.IGNORECASE,
)
_ITALIC = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]+?)\*(?![\w*])")

_MATH = re.compile(
    r"(?s)(?<!\\)\$\$(.+?)(?<!\\)\$\$"
    r"|(?<![\\\w])\$(?=[^\s$])([^\n]*?[^\s\\])\$(?![\d$])"
)
_COMMAND = re.compile(
    r"(?:\\|\x08)(?P<name>[a-zA-Z]+)\*?[ \t]*(?P<open>\{)?|\\(?P<sign>.)|[{}]", re.DOTALL
)
_BOXES = frozenset({"boxed", "oxed", "fbox", "framebox"})
r"""A "\b" that was read as an escape leaves "oxed"."""
_FRACTIONS = frozenset({"frac", "dfrac", "tfrac"})
_STYLES = frozenset(
    ("text", "textbf", "textit", "textrm", "textsf", "texttt", "textnormal", "mathrm", "mathbf",
    "mathit",
     "mathsf", "mathtt", "bf", "rm", "it", "mbox", "emph", "underline", "operatorname",
     "displaystyle",
     "left",
     "right", "bigl", "bigr", "big", "Big", "large", "Large", "bold")
)  # fmt: skip
_SYMBOLS = {
    "times": "\u00d7", "cdot": "\u00b7", "circ": "\u00b0", "degree": "\u00b0", "pm": "\u00b1",
    "approx": "\u2248", "sim": "~", "leq": "\u2264", "le": "\u2264", "geq": "\u2265",
    "ge": "\u2265",
    "neq": "\u2260", "ne": "\u2260", "neg": " not ", "lnot": " not ", "not": " not ", "lt": "<",
    "gt": ">",
    "quad": " ", "qquad": " ", "percent": "%", "euro": "\u20ac", "pounds": "\u00a3", "dots": "...",
    "ldots": "...", "colon": ":", "textdegree": "\u00b0",
}  # fmt: skip
_SPACES = frozenset(",;:!> ")
_NAMES = (
    "final_answer",
    "final answer",
    "short_answer",
    "answer",
    "response",
    "result",
    "output",
    "value",
)
"""Keys of an object that hold its answer, the surest first."""


def without_markup(text: str) -> str:
    """Return text without markup, each box and each bold part between its two signs.

    Takes time linear in the length of the text.
    """
    if not _MARKS.search(text):
        return text
    text = _THOUGHT.sub("", _SIGNS.sub("", text))
    if "<" in text:
        text = _BREAK.sub("\n", _TOKEN.sub("", _BOX_TAG.sub(_box_sign, text)))
    if "`" in text or "~~~" in text:
        text = _FENCE.sub("", text)
    if (held := _from_object(text.strip())) is not None:
        text = held
    if "\\" in text or "$" in text or "\x08" in text:
        text = _without_latex(text)
    text = text.replace("{,}", ",")
    text = _MARKED.sub("Answer: ", text) if "\n####" in text else text
    for pattern, kept in ((_RULER, ""), (_HEADING, ""), (_QUOTED, ""), (_LINK, r"\1")):
        text = pattern.sub(kept, text)
    return _ITALIC.sub(r"\1", _BOLD.sub(_bold, text))


def bare(text: str) -> str:
    """Return text without the signs of boxes and bold parts."""
    return _SIGNS.sub("", text)


def _box_sign(found: re.Match[str]) -> str:
    return BOX_END if found["slash"] or found["side"] == "end" else BOX


def _bold(found: re.Match[str]) -> str:
    return BOLD + next(filter(None, found.groups())) + BOLD_END


def _from_object(text: str) -> str | None:
    """Return what a JSON object, or a dictionary of Python, holds as its answer."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        read = json.loads(text)
    except ValueError:
        pair = re.fullmatch(r"\{\s*['\"]?([\w ]+)['\"]?\s*:\s*(['\"]?)([^\n]*)\2\s*\}", text)
        read = {pair[1]: pair[3]} if pair else None
    except RecursionError:
        return None
    if not isinstance(read, dict):
        return None
    keys = {str(key).casefold(): value for key, value in read.items()}
    held = next((keys[name] for name in _NAMES if name in keys), None)
    if isinstance(held, list):
        return "; ".join(map(str, held))
    if isinstance(held, bool):
        return "yes" if held else "no"
    return None if held is None or isinstance(held, dict) else str(held)


def _without_latex(text: str) -> str:
    r"""Return text without mathematics: `$12\%$` is 12%, `\frac{1}{3}` is 1/3, `\boxed{x}` is in a
    box.
    """
    text = _MATH.sub(_formula, text)
    pieces: list[str] = []
    closings: list[str] = []
    at = 0
    for found in _COMMAND.finditer(text):
        pieces.append(text[at : found.start()])
        at = found.end()
        if found[0] == "}":
            pieces.append(closings.pop() if closings else "")
        elif found[0] == "{":
            closings.append("")
        elif found["sign"]:
            pieces.append(_sign(found["sign"]))
        else:
            opening, closing = _command(found["name"], has_group=bool(found["open"]))
            pieces.append(opening)
            if found["open"]:
                closings.append(closing)
    return "".join((*pieces, text[at:])).replace("^\u00b0", "\u00b0")


def _formula(found: re.Match[str]) -> str:
    inner = found[1] or found[2]
    # a command that ends it would run into the letter behind it
    return inner + " " * inner[-1].isalpha()


def _sign(sign: str) -> str:
    if sign == "\\":
        return "\n"
    if sign in "()[]{}":
        return ""
    return " " * (sign != "!") if sign in _SPACES else sign


def _command(name: str, *, has_group: bool) -> tuple[str, str]:
    """Return what stands for a command, and for the end of its group."""
    if name in _BOXES and has_group:
        return BOX, BOX_END
    if name in _FRACTIONS and has_group:
        return "", "/"
    if name in _STYLES:
        return "", ""
    return _SYMBOLS.get(name, f" {name} "), ""

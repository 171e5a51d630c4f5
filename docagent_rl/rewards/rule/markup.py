r"""Removal of the markup that models write: tags, fences, JSON, LaTeX, HTML and Markdown.

The content of a box (`\boxed{x}`, `<answer>x</answer>`) or of a bold part is enclosed in two
private-use characters, so that later rules can find it.
"""

import json
import re

BOX, BOX_END, BOLD, BOLD_END = "\ue000\ue001\ue002\ue003"
"""Private-use characters; `without_markup` removes those that a model wrote itself."""
_SIGNS = re.compile("[\ue000-\ue003]")

_MARKS = re.compile(r"[<>`{}\\$#*_\[~=\x08\u25c1\ue000-\ue003]|--|assistantfinal")
_THOUGHT = re.compile(
    r"(?s)\A.*(?:</(?:think|thinking|thought|reasoning|analysis)>|\u25c1/think\u25b7"
    r"|<\|channel\|>final<\|message\|>|assistantfinal(?=\S))",
    re.IGNORECASE,
)
"""Everything up to the end of the thoughts."""
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
"""The last line of an answer in GSM8K's style: `#### 12`."""
# "> 12" on a line of its own may mean "more than 12", not a quotation
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
r"""Names of boxing commands; "oxed" is left of "\boxed" if its "\b" was read as an escape."""
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
"""Keys under which an object stores its answer, the most certain first."""


def without_markup(text: str) -> str:
    """Return text without markup, with each box and bold part between its two markers.

    The running time is linear in the length of the text.
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
    """Return text without the markers of boxes and bold parts."""
    return _SIGNS.sub("", text)


def _box_sign(found: re.Match[str]) -> str:
    return BOX_END if found["slash"] or found["side"] == "end" else BOX


def _bold(found: re.Match[str]) -> str:
    return BOLD + next(filter(None, found.groups())) + BOLD_END


def _from_object(text: str) -> str | None:
    """Return the answer in a JSON object or a Python dictionary; `None` if there is none."""
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
    r"""Convert LaTeX to plain text.

    `$12\%$` becomes 12%, `\frac{1}{3}` becomes 1/3, and `\boxed{x}` becomes a box.
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
    # otherwise a command at the end would merge with a letter after the formula
    return inner + " " * inner[-1].isalpha()


def _sign(sign: str) -> str:
    if sign == "\\":
        return "\n"
    if sign in "()[]{}":
        return ""
    return " " * (sign != "!") if sign in _SPACES else sign


def _command(name: str, *, has_group: bool) -> tuple[str, str]:
    """Return the replacements of a command and of the end of its group."""
    if name in _BOXES and has_group:
        return BOX, BOX_END
    if name in _FRACTIONS and has_group:
        return "", "/"
    if name in _STYLES:
        return "", ""
    return _SYMBOLS.get(name, f" {name} "), ""

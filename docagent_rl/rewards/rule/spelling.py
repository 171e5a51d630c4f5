"""One spelling for texts that a reader would call the same."""

from __future__ import annotations

import math
import re
import unicodedata

from docagent_rl.rewards.literals import safe_literal

_DASHES = re.compile("[\u2010-\u2015\u2212]")
_SINGLE_QUOTES = re.compile("[\u2018\u2019\u201b\u02bc`]")
_DOUBLE_QUOTES = re.compile("[\u201c\u201d\u201e\u00ab\u00bb]")
_SUPERSCRIPT = re.compile("(?<=[0-9])([\u00b2\u00b3\u00b9\u2070\u2074-\u2079]+)")
_VULGAR = re.compile("(?<=[0-9])(?=[\u00bc-\u00be\u2150-\u215e])")
_MARKUP = re.compile(r"\\boxed\{([^{}]*)\}|\*{1,3}([^*\n]+)\*{1,3}|\$(-?[0-9][0-9.,]*)\$")
_LONGEST_SUM = 200
_SUM = re.compile("[0-9][0-9 .,+*/()$\u00d7-]*")
_RESULT = re.compile(r"-?[0-9][0-9,]*(?:\.[0-9]+)?")
_BULLET = re.compile(r"^[ \t]*(?:[-*\u2022]|[0-9]{1,2}[.)])[ \t]+", re.MULTILINE)


def fold(text: str) -> str:
    r"""Return the text with one form of every digit, dash, quote, accent and blank, in its case.

    Markup around an answer goes: `**x**`, `$12$`, `\boxed{x}`, bullets and numbers of a list. So do
    characters that are not seen. Digits of all scripts become ASCII; circled ones stay apart.
    """
    text = _MARKUP.sub(lambda found: next(filter(None, found.groups()), ""), text)
    text = _SUPERSCRIPT.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[1]), text)
    text = _VULGAR.sub(" ", text)
    plain = "".join(map(_plain, text))
    plain = unicodedata.normalize("NFC", _without_accents(unicodedata.normalize("NFKC", plain)))
    plain = _DASHES.sub("-", plain.replace("\u2044", "/"))
    plain = _DOUBLE_QUOTES.sub('"', _SINGLE_QUOTES.sub("'", plain)).replace("_", " ")
    return _BULLET.sub("", plain) if "\n" in plain.strip() else plain


def result_of(folded: str) -> str:
    """Return what stands behind the equals sign of a sum that comes out: 42 for `30 + 12 = 42`."""
    left, equals, right = folded[:_LONGEST_SUM].partition("=")
    result = right.strip(" .$")
    if not equals or not _SUM.fullmatch(left) or not _RESULT.fullmatch(result):
        return folded
    try:
        value = safe_literal(left.replace(",", "").replace("$", "").replace("\u00d7", "*").strip())
        same = math.isclose(float(value), float(result.replace(",", "")), rel_tol=1e-9)
    except (ValueError, TypeError, OverflowError):
        return folded
    return right.strip() if same else folded


def _plain(char: str) -> str:
    if char.isascii():
        return char
    if char in "\u066b\u066c":
        return ".,"[char == "\u066c"]
    if unicodedata.category(char) == "Cf":
        return ""
    if unicodedata.decomposition(char).startswith("<circle>"):
        return f" {unicodedata.normalize('NFKC', char)} "
    digit = unicodedata.decimal(char, None)
    return char if digit is None else str(digit)


def _without_accents(text: str) -> str:
    """Drop the accents of Latin letters; other scripts need theirs."""
    if text.isascii():
        return text
    kept: list[str] = []
    latin = False
    for char in unicodedata.normalize("NFD", text):
        if unicodedata.combining(char) and latin:
            continue
        latin = char.isascii() and char.isalpha()
        kept.append(char)
    return "".join(kept)

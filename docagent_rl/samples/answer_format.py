"""The answer formats: a closed vocabulary, since they determine how answers are scored."""

import difflib

LISTS = frozenset({"list", "list/extractive", "list/abstractive"})
"""Formats in which all texts of `answers` together are the answer.

`list` is used by MMLongBench-Doc and LongDocURL, the others by DUDE.
"""
SINGLE = frozenset(
    {
        # MMLongBench-Doc and LongDocURL
        "int",
        "integer",
        "float",
        "str",
        "string",
        "none",
        # DUDE
        "extractive",
        "abstractive",
        "not-answerable",
    }
)
"""Formats in which each text of `answers` is a right answer."""


def folded_format(name: str) -> str:
    """Return a format name as it is spelled in `LISTS` and `SINGLE`."""
    return name.strip().casefold()


def format_problem(name: str) -> str | None:
    """Return why a name is not an answer format, with a suggestion; `None` if it is one."""
    folded = folded_format(name)
    known = LISTS | SINGLE
    if folded in known:
        return None
    near = difflib.get_close_matches(folded, sorted(known), n=1)
    hint = f"did you mean {near[0]!r}? Formats are " if near else "formats are "
    return f"{name!r} is not an answer format; {hint}{', '.join(sorted(known))}"

"""The formats of answers: a closed vocabulary, since they decide how an answer is compared and
rewarded.
"""

import difflib

LISTS = frozenset({"list", "list/extractive", "list/abstractive"})
"""All texts of `answers` together are the answer (MMLongBench-Doc and LongDocURL; the others are
DUDE's).
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
"""Each text of `answers` is right by itself."""


def folded_format(name: str) -> str:
    """Return a format as it stands in `LISTS` and `SINGLE`."""
    return name.strip().casefold()


def format_problem(name: str) -> str | None:
    """Return why a text is no format of answers, with the one that is probably meant; `None` for a
    format.
    """
    folded = folded_format(name)
    known = LISTS | SINGLE
    if folded in known:
        return None
    near = difflib.get_close_matches(folded, sorted(known), n=1)
    hint = f"did you mean {near[0]!r}? Known are " if near else "known are "
    return f"{name!r} is no format of answers; {hint}{', '.join(sorted(known))}"

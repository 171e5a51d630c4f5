from __future__ import annotations

import pytest

from docagent_rl.systems.mm_doc_r1.actions import ReadEntry, resolve

KNOWN = range(1, 10)


def resolved(entries):
    found, remarks = resolve(entries, KNOWN, "What is\n it?", max_pages=3, max_entries=2)
    return [(entry.pages, entry.query) for entry in found], remarks


@pytest.mark.parametrize(
    ("entries", "kept", "named"),
    [
        ([ReadEntry((5, 4), "a"), ReadEntry((9,), "b")], [((5, 4), "a"), ((9,), "b")], []),
        # unknown pages are dropped before the limit counts
        (
            [ReadEntry((99, 0, -3, 1, 2, 3), "a", ("4-6", "true"))],
            [((1, 2, 3), "a")],
            [": 99, 0, -3, 4-6, true."],
        ),
        (
            [ReadEntry((1, 2, 3, 4), "a"), ReadEntry((5,), "b"), ReadEntry((6,), "c")],
            [((1, 2, 3), "a"), ((5,), "b")],
            ["first 3 pages", "first 2 entries"],
        ),
        # entries without an existing page are left out, with a remark when others stay
        (
            [ReadEntry((77,), "a"), ReadEntry((5,), "b"), ReadEntry((), "c")],
            [((5,), "b")],
            [": 77.", "left out"],
        ),
        ([ReadEntry((77,), "a")], [], [": 77."]),
        ([], [], []),
        # a blank query becomes the question
        ([ReadEntry((1,), ""), ReadEntry((1,), "What is it?")], [((1,), "What is it?")], ["question"]),
        ([ReadEntry(tuple(range(100, 100_000)), "a")], [], [": 100, 101, 102, 103, 104 and 99895 more."]),
    ],
)
def test_what_is_read(entries, kept, named):
    found, remarks = resolved(entries)
    assert found == kept
    assert len(remarks) == len(named)
    assert all(part in remark for part, remark in zip(named, remarks, strict=True))

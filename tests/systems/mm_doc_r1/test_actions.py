import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.actions.base import Finish, Invalid, InvalidReason, StopCause
from docagent_rl.systems.mm_doc_r1.actions import (
    KeywordSearch,
    MMDocGrammar,
    ReadEntries,
    ReadEntry,
    canonical,
    resolve,
    thought_end,
)

NO_ACTION, BAD = InvalidReason.NO_ACTION, InvalidReason.BAD_ARGUMENT


def parse(text, stop=StopCause.END_OF_TURN):
    return MMDocGrammar().parse(text, stop)


def entries(body):
    action = parse(f"<read>{body}</read>").action
    assert isinstance(action, ReadEntries), action
    return action.entries


def kinds(turn):
    return [type(action) for action in (turn.action, *turn.surplus)]


@pytest.mark.parametrize("text", ["<FINISH>", "<Finish />", "I know. <FINISH/> bye"])
def test_finish(text):
    action = parse(text).action
    assert isinstance(action, Finish)
    assert text[slice(*action.block)].lower().startswith("<finish")


@pytest.mark.parametrize(
    ("ids", "pages", "strays"),
    [
        ('"4"', (4,), ()),
        ('[4, " 5 ", 4, "5"]', (4, 5), ()),
        ('[true, 4, 4.0, "4-6", "p.4"]', (4,), ("true", "4.0", "4-6", "p.4")),
        ("[-1, 0, 99999999999999999999]", (-1, 0), ("99999999999999999999",)),
        ("[NaN, Infinity, 1e999, null]", (), ("NaN", "Infinity", "inf", "null")),
        ('[[1], {"a": 1}]', (), ("a list", "an object")),
        ('["\u0664"]', (), ("\u0664",)),
    ],
)
def test_page_ids(ids, pages, strays):
    (entry,) = entries(f'{{"page_ids": {ids}, "query": "q"}}')
    assert (entry.pages, entry.strays, entry.query) == (pages, strays, "q")


@pytest.mark.parametrize(
    ("body", "read"),
    [
        ('{"query": "q"}', [ReadEntry((), "q")]),
        # a query that is no text is blank
        *(
            (f'{{"page_ids": [1], "query": {query}}}', [ReadEntry((1,), "")])
            for query in ("null", '" "')
        ),
        ('{"page_ids": [1], "query": ["a"]}', [ReadEntry((1,), "")]),
        (
            '[{"page_ids": [5, 4], "query": "a\\n b"}, {"page_ids": [9], "query": "c"}]',
            [ReadEntry((5, 4), "a b"), ReadEntry((9,), "c")],
        ),
        # equal entries are one
        (
            '[{"page_ids": [1], "query": "a"}, {"page_ids": [1], "query": "a"}]',
            [ReadEntry((1,), "a")],
        ),
        # one repair; valid JSON is left alone
        ('[{"page_ids": [1,], "query": "a",},]', [ReadEntry((1,), "a")]),
        (
            '{"page_ids": [1], "query": "<search>, \u201cbig,]"}',
            [ReadEntry((1,), "<search>, \u201cbig,]")],
        ),
    ],
)
def test_entries(body, read):
    action = parse(f"<read>{body}</read>").action
    assert list(action.entries) == read
    assert action.pages == tuple(dict.fromkeys(page for entry in read for page in entry.pages))


@pytest.mark.parametrize(
    ("body", "keywords"),
    [
        ("[\u201ca\u201d, \u201eb\u201c,]", ("a", "b")),
        ('["the \u201cbig\u201d one ,]"]', ("the \u201cbig\u201d one ,]",)),
        ('["<read> tags", "<FINISH>"]', ("<read> tags", "<FINISH>")),
        (json.dumps(["k"] * 9), ("k",) * 8),
    ],
)
def test_keywords(body, keywords):
    turn = parse(f"<search>{body}</search>")
    assert (turn.action.keywords, turn.surplus) == (keywords, ())
    assert any("8" in remark for remark in turn.action.remarks) == (len(keywords) == 8)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", NO_ACTION),
        ("<think>I <FINISH>", NO_ACTION),
        ("a</think><think>b <FINISH>", NO_ACTION),
        ("<think><FINISH></think> so", NO_ACTION),
        ('<search>["a"]</read>', InvalidReason.UNCLOSED),
        ('<search>["a"]<search>["b"]</search>', InvalidReason.NESTED),
        *((f"<search>{body}</search>", BAD) for body in ("words", '["", "  "]', '["a", 5]')),
        *((f"<read>{body}</read>", BAD) for body in ("[4, 5]", "[]", '[{"page_ids": [1]}, 5]')),
        ('<read>{"page_ids": ' + "[" * 5000 + "]" * 5000 + "}</read>", BAD),
    ],
    ids=range(13),
)
def test_invalid_steps(text, reason):
    action = parse(text).action
    assert isinstance(action, Invalid)
    assert action.reason is reason
    assert canonical(action) == ""


def test_the_first_complete_action_wins():
    turn = parse('<FINISH><search>["a"]</search><read>5</read><finish/>')
    assert kinds(turn) == [Finish, KeywordSearch, Invalid, Finish]
    assert kinds(parse('<search>["a"]</search><FINISH>')) == [KeywordSearch, Finish]
    assert kinds(parse("<FINISH>", StopCause.CONTROL_TOKEN)) == [Invalid, Finish]


def test_everything_up_to_the_last_thought_is_a_thought():
    text = (
        '<think><search>["no"]</search></think> x <think>more</think> so <search>["yes"]</search>'
    )
    turn = parse(text)
    assert (turn.action.keywords, turn.surplus) == (("yes",), ())
    assert text[slice(*turn.action.block)] == '<search>["yes"]</search>'
    assert thought_end(text) == text.rfind("</think>") + len("</think>")
    # a template that opens the thought itself
    assert parse("I wonder <FINISH> </think> <FINISH>").thoughts == ((0, 18),)
    assert thought_end("no thought") == 0


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ('<search>["a"]</search> and then', StopCause.TRUNCATED, InvalidReason.TRUNCATED),
        ('<search>["a"]', StopCause.TRUNCATED, InvalidReason.TRUNCATED),
        ("<FINISH><FINISH>", StopCause.TRUNCATED, InvalidReason.TRUNCATED),
        # generation that stops at a closing tag
        ('so <search>["a"]</search>', StopCause.TRUNCATED, KeywordSearch),
        ("so <FINISH>\n", StopCause.TRUNCATED, Finish),
        ("<FINISH>", StopCause.CONTROL_TOKEN, InvalidReason.CONTROL_TOKEN),
    ],
)
def test_a_step_that_did_not_end_in_order(text, stop, expected):
    action = parse(text, stop).action
    assert getattr(action, "reason", type(action)) == expected


@settings(max_examples=50)
@given(
    st.lists(st.text(min_size=1, max_size=30).filter(lambda t: t.strip()), min_size=1, max_size=8)
)
def test_canonical_searches_are_read_back(words):
    action = parse(f"<search>{json.dumps(words)}</search>").action
    again = parse(canonical(action)).action
    if "</search>" not in canonical(action)[:-9] and "</think>" not in canonical(action):
        assert again.keywords == action.keywords == tuple(" ".join(word.split()) for word in words)


@pytest.mark.parametrize(
    "text",
    [
        "<search>" * 10_000, '<search>["a"]</search>' * 4_000, "<finish" + " " * 10**5,
        "<think>" * 10_000,
        "<search>[" + ", " * 50_000 + "]</search>", '<read>{"page_ids": '
                                                    '[' + "1," * 20_000 + "]}</read>",
    ],
    ids=range(6),
)  # fmt: skip
def test_long_texts_parse(text):
    """Parsing takes linear time; otherwise these texts would take minutes."""
    assert parse(text).action


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
        (
            [ReadEntry((1,), ""), ReadEntry((1,), "What is it?")],
            [((1,), "What is it?")],
            ["question"],
        ),
        (
            [ReadEntry(tuple(range(100, 100_000)), "a")],
            [],
            [": 100, 101, 102, 103, 104 and 99895 more."],
        ),
    ],
)
def test_what_is_read(entries, kept, named):
    found, remarks = resolved(entries)
    assert found == kept
    assert len(remarks) == len(named)
    assert all(part in remark for part, remark in zip(named, remarks, strict=True))

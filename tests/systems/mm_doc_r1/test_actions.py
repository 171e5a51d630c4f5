from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.actions import Answer, Finish, Invalid, InvalidReason, StopCause
from docagent_rl.envs.base import UnknownActionError
from docagent_rl.systems.mm_doc_r1.actions import (
    KeywordSearch,
    MMDocGrammar,
    ReadEntries,
    ReadEntry,
    canonical,
    thought_end,
)

GRAMMAR = MMDocGrammar()


def parse(text, stop=StopCause.END_OF_TURN):
    return GRAMMAR.parse(text, stop)


def entries(body):
    action = parse(f"<read>{body}</read>").action
    assert isinstance(action, ReadEntries), action
    return action.entries


def test_search_with_spans():
    text = 'I need totals. <search> ["net  revenue", "2019"] </search> trailing'
    action = parse(text).action
    assert isinstance(action, KeywordSearch)
    assert action.keywords == ("net revenue", "2019")
    assert action.query == "net revenue 2019"
    assert text[slice(*action.block)] == '<search> ["net  revenue", "2019"] </search>'
    assert text[slice(*action.argument)] == ' ["net  revenue", "2019"] '
    assert action.remarks == ()


def test_read():
    action = parse(
        '<read>[{"page_ids": [5, 4], "query": "a\\n b"}, {"page_ids": [9], "query": "c"}]</read>'
    ).action
    assert action.entries == (ReadEntry((5, 4), "a b"), ReadEntry((9,), "c"))
    assert (action.pages, action.goal) == ((5, 4, 9), "a b; c")


@pytest.mark.parametrize("text", ["<FINISH>", "<Finish />", "I know. <FINISH/> bye"])
def test_finish(text):
    action = parse(text).action
    assert isinstance(action, Finish)
    assert text[slice(*action.block)].lower().startswith("<finish")


@pytest.mark.parametrize(
    ("body", "pages", "strays"),
    [
        ('{"page_ids": "4", "query": "q"}', (4,), ()),
        ('[{"page_ids": [4, " 5 ", 4, "5"], "query": "q"}]', (4, 5), ()),
        ('{"page_ids": [true, 4, 4.0, "4-6", "p.4"], "query": "q"}', (4,), ("true", "4.0", "4-6", "p.4")),
        ('{"page_ids": [-1, 0, 99999999999999999999], "query": "q"}', (-1, 0), ("99999999999999999999",)),
        ('{"page_ids": [NaN, Infinity, 1e999, null], "query": "q"}', (), ("NaN", "Infinity", "inf", "null")),
        ('{"page_ids": [[1], {"a": 1}], "query": "q"}', (), ("a list", "an object")),
        ('{"page_ids": [], "query": "q"}', (), ()),
        ('{"query": "q"}', (), ()),
        ('{"page_ids": ["\u0664"], "query": "q"}', (), ("\u0664",)),
    ],
)  # fmt: skip
def test_page_ids(body, pages, strays):
    (entry,) = entries(body)
    assert (entry.pages, entry.strays) == (pages, strays)


@pytest.mark.parametrize("query", ['"  "', "null", '["a"]'])
def test_a_query_that_is_no_text_is_blank(query):
    assert entries(f'{{"page_ids": [1], "query": {query}}}')[0].query == ""


def test_equal_entries_are_one():
    same = '{"page_ids": [1], "query": "a"}'
    assert len(entries(f"[{same}, {same}]")) == 1


def test_one_repair():
    assert parse("<search>[\u201ca\u201d, \u201eb\u201c,]</search>").action.keywords == ("a", "b")
    assert entries('[{"page_ids": [1,], "query": "a",},]') == (ReadEntry((1,), "a"),)


def test_repairs_leave_valid_json_alone():
    assert parse('<search>["the \u201cbig\u201d one ,]"]</search>').action.keywords == (
        "the \u201cbig\u201d one ,]",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", InvalidReason.NO_ACTION),
        ("</search>", InvalidReason.NO_ACTION),
        ('<Search>["a"]</Search>', InvalidReason.NO_ACTION),
        ("< FINISH>", InvalidReason.NO_ACTION),
        ("<think>I <FINISH>", InvalidReason.NO_ACTION),
        ("a</think><think>b <FINISH>", InvalidReason.NO_ACTION),
        ("<think><FINISH></think> so", InvalidReason.NO_ACTION),
        ('<search>["a"]', InvalidReason.UNCLOSED),
        ('<search>["a"]</read>', InvalidReason.UNCLOSED),
        ('<search>["a"]<search>["b"]</search>', InvalidReason.NESTED),
        ("<search>words</search>", InvalidReason.BAD_ARGUMENT),
        ('<search>"a"</search>', InvalidReason.BAD_ARGUMENT),
        ('<search>["", "  "]</search>', InvalidReason.BAD_ARGUMENT),
        ('<search>["a", 5]</search>', InvalidReason.BAD_ARGUMENT),
        ("<search>__import__('os')</search>", InvalidReason.BAD_ARGUMENT),
        ("<read>[4, 5]</read>", InvalidReason.BAD_ARGUMENT),
        ("<read>[]</read>", InvalidReason.BAD_ARGUMENT),
        ('<read>[{"page_ids": [1]}, 5]</read>', InvalidReason.BAD_ARGUMENT),
        ("<read>" + "[" * 100_000 + "</read>", InvalidReason.BAD_ARGUMENT),
        ('<read>{"page_ids": ' + "[" * 5000 + "]" * 5000 + "}</read>", InvalidReason.BAD_ARGUMENT),
    ],
)  # fmt: skip
def test_invalid_steps(text, reason):
    action = parse(text).action
    assert isinstance(action, Invalid)
    assert action.reason is reason
    assert canonical(action) == ""


def test_tags_inside_a_valid_body_are_text():
    assert parse('<search>["<read> tags", "<FINISH>"]</search>').action.keywords == (
        "<read> tags",
        "<FINISH>",
    )
    turn = parse('<read>{"page_ids": [1], "query": "<search>?"}</read>')
    assert turn.action.goal == "<search>?"
    assert turn.surplus == ()


def test_the_first_complete_action_wins():
    turn = parse('<FINISH><search>["a"]</search><read>5</read><finish/>')
    assert [type(action) for action in (turn.action, *turn.surplus)] == [
        Finish,
        KeywordSearch,
        Invalid,
        Finish,
    ]
    turn = parse('<search>["a"]</search><FINISH>')
    assert [type(action) for action in (turn.action, *turn.surplus)] == [KeywordSearch, Finish]


def test_everything_up_to_the_last_thought_is_a_thought():
    text = '<think><search>["no"]</search></think> x <think>more</think> so <search>["yes"]</search>'
    turn = parse(text)
    assert turn.action.keywords == ("yes",)
    assert turn.surplus == ()
    assert text[slice(*turn.action.block)] == '<search>["yes"]</search>'
    assert thought_end(text) == text.rfind("</think>") + len("</think>")
    # a template that opens the thought itself
    assert parse("I wonder <FINISH> </think> <FINISH>").thoughts == ((0, 18),)
    assert thought_end("no thought") == 0


def test_an_action_of_another_system_has_no_form_here():
    with pytest.raises(UnknownActionError, match="Answer"):
        canonical(Answer(None, None, "blue"))


def test_limits_of_a_search():
    action = parse(f"<search>{json.dumps(['k'] * 9)}</search>").action
    assert action.keywords == ("k",) * 8
    assert "8" in action.remarks[0]
    action = MMDocGrammar(max_keyword_chars=3).parse('<search>["abcd", "ab", ""]</search>').action
    assert action.keywords == ("abc", "ab")
    assert "3" in action.remarks[0]


def test_a_step_that_was_cut_off():
    cut = StopCause.TRUNCATED
    assert parse('<search>["a"]</search> and then', cut).action.reason is InvalidReason.TRUNCATED
    assert parse('<search>["a"]', cut).action.reason is InvalidReason.TRUNCATED
    # generation that stops at a closing tag
    assert isinstance(parse('so <search>["a"]</search>', cut).action, KeywordSearch)
    assert isinstance(parse("so <FINISH>\n", cut).action, Finish)
    assert parse("<FINISH><FINISH>", cut).action.reason is InvalidReason.TRUNCATED


def test_a_control_token_is_never_an_action():
    turn = parse("<FINISH>", StopCause.CONTROL_TOKEN)
    assert turn.action.reason is InvalidReason.CONTROL_TOKEN
    assert [type(action) for action in turn.surplus] == [Finish]


def test_lone_surrogates_can_be_written():
    action = parse('<search>["\\ud83d blue"]</search>').action
    assert action.keywords[0].encode()
    assert entries('{"page_ids": ["\\ud83d"], "query": "\\udfff"}')[0].query.encode()


@given(st.lists(st.text(min_size=1, max_size=30).filter(lambda t: t.strip()), min_size=1, max_size=8))
def test_canonical_searches_are_read_back(words):
    action = parse(f"<search>{json.dumps(words)}</search>").action
    again = parse(canonical(action)).action
    if "</search>" not in canonical(action)[:-9] and "</think>" not in canonical(action):
        assert again.keywords == action.keywords == tuple(" ".join(word.split()) for word in words)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(-5, 999), max_size=4), st.text(max_size=20)), min_size=1, max_size=3
    )
)
def test_canonical_reads_are_read_back(items):
    body = json.dumps([{"page_ids": ids, "query": query} for ids, query in items])
    action = parse(f"<read>{body}</read>").action
    if "<" not in body:
        assert parse(canonical(action)).action.entries == action.entries


PIECES = st.sampled_from(
    ["<search>", "</search>", "<read>", "</read>", "<FINISH>", "<think>", "</think>", '["a"]', "[", "]",
    "{", "}", '"',
     '{"page_ids": [1], "query": "q"}', ",", " ", "word", "\x00", "\ud83d"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30), st.sampled_from(list(StopCause)))
def test_any_text_gives_an_action_with_spans_inside_it(pieces, stop):
    text = "".join(pieces)
    turn = parse(text, stop)
    assert parse(text, stop) == turn
    for action in (turn.action, *turn.surplus):
        for span in (action.block, action.argument):
            assert span is None or 0 <= span[0] <= span[1] <= len(text)
    blocks = [action.block for action in (turn.action, *turn.surplus) if action.block]
    assert blocks == sorted(blocks)


@pytest.mark.parametrize(
    "text",
    [
        "<search>" * 60_000, "<FINISH>" * 60_000, '<search>["a"]</search>' * 20_000,
        "<finish" + " " * 400_000, "<think>" * 60_000, "</think>" * 60_000,
        "<search>[" + ", " * 200_000 + "]</search>", "<search>[" + '"a",' * 100_000 + "]</search>",
        "<search>" + "," + " " * 400_000 + "</search>", '<read>{"page_ids": [' + "1," * 100_000 + "]}</read>",
    ],
    ids=range(10),
)  # fmt: skip
def test_long_texts_parse(text):
    """A parser that is not linear in the length would take minutes."""
    parse(text)

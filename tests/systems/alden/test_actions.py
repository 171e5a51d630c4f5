from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.actions import Answer, Fetch, Invalid, InvalidReason, Search, StopCause
from docagent_rl.systems.alden.actions import (
    NO_SUCH_PAGE,
    AldenGrammar,
    AldenTurn,
    FetchSyntax,
    FormFault,
    Modality,
    PageForm,
)

VISUAL = AldenGrammar()
HYBRID = AldenGrammar(modality=Modality.HYBRID)
HYBRID_ORDINAL = AldenGrammar(modality=Modality.HYBRID, fetch_syntax=FetchSyntax.ORDINAL)
ORDINAL = AldenGrammar(fetch_syntax=FetchSyntax.ORDINAL)
LENIENT = AldenGrammar(lenient=True)
THOUGHT = "<think>look</think>"
BOX = r"It says so. \boxed{blue}"


def test_search_with_spans():
    text = f"  {THOUGHT}\n\n<search>  annual  report </search>\n"
    turn = VISUAL.parse(text)
    assert isinstance(turn.action, Search)
    assert (turn.action.query, turn.fault) == ("annual  report", None)
    assert text[slice(*turn.action.block)] == "<search>  annual  report </search>"
    assert text[slice(*turn.action.argument)] == "  annual  report "
    assert [text[slice(*span)] for span in turn.thoughts] == ["look"]
    assert turn.surplus == ()


def test_answer():
    turn = VISUAL.parse(f"{THOUGHT}<answer>{BOX}</answer>")
    assert isinstance(turn.action, Answer)
    assert (turn.action.text, turn.fault) == ("blue", None)
    assert VISUAL.parse(THOUGHT + r"<answer>\boxed{}</answer>").action.text == ""


@pytest.mark.parametrize(
    ("grammar", "argument", "page", "form"),
    [
        (VISUAL, "7", 7, PageForm.IMAGE),
        (VISUAL, " 12 ", 12, PageForm.IMAGE),
        (VISUAL, "9" * 5000, NO_SUCH_PAGE, PageForm.IMAGE),
        (VISUAL, "999999999", 999_999_999, PageForm.IMAGE),
        (ORDINAL, "5-th", 5, PageForm.IMAGE),
        (ORDINAL, "1-st", 1, PageForm.IMAGE),
        (ORDINAL, "2-nd", 2, PageForm.IMAGE),
        (ORDINAL, "3-rd", 3, PageForm.IMAGE),
        (HYBRID, "image, 7", 7, PageForm.IMAGE),
        (HYBRID, "text \t, \n 7", 7, PageForm.TEXT),
        (HYBRID_ORDINAL, "text, 5-th", 5, PageForm.TEXT),
    ],
)
def test_fetches(grammar, argument, page, form):
    turn = grammar.parse(f"{THOUGHT}<fetch>{argument}</fetch>")
    assert (turn.action.pages, turn.form, turn.fault) == ((page,), form, None)


@pytest.mark.parametrize(
    ("grammar", "argument"),
    [
        (VISUAL, "0"),
        (VISUAL, "07"),
        (VISUAL, "1, 2"),
        (VISUAL, ""),
        (VISUAL, "page 7"),
        (VISUAL, "\u0667"),
        (VISUAL, "image, 7"),
        (VISUAL, "7-th"),
        (ORDINAL, "7"),
        (ORDINAL, "7th"),
        (HYBRID, "7"),
        (HYBRID, "video, 7"),
        (HYBRID, "Image, 7"),
        (HYBRID, "image 7"),
    ],
)
def test_fetches_that_name_no_page(grammar, argument):
    turn = grammar.parse(f"{THOUGHT}<fetch>{argument}</fetch>")
    assert isinstance(turn.action, Fetch)
    assert (turn.action.pages, turn.fault) == ((), FormFault.ARGUMENT)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("<search>a</search>", "a"),
        (f"{THOUGHT}<search>a</search> there", "a"),
        (f"{THOUGHT}then<search>a</search>", "a"),
        ("<think>open <search>a</search>", "a"),
        ("<think>never <search>a</search></think>", "a"),
        (f"{THOUGHT}<search>a</search><search>b</search>", "b"),
        (f"{THOUGHT}<search>a</search></search>", "a"),
        (f"{THOUGHT}<answer>{BOX}</answer><search>a</search>", "a"),
        (f"{THOUGHT}<search>a<search>b</search>", "b"),
        (f"{THOUGHT}<search>a</search><search> </search><fetch>q</fetch>", None),
    ],
)
def test_malformed_turns_that_can_be_executed(text, query):
    turn = VISUAL.parse(text)
    if query is None:
        assert isinstance(turn.action, Fetch)
        assert turn.fault is FormFault.ARGUMENT
    else:
        assert (turn.action.query, turn.fault) == (query, FormFault.FRAME)


@pytest.mark.parametrize(
    "order", ["<fetch>3</fetch><search>a</search>", "<search>a</search><fetch>3</fetch>"]
)
def test_a_search_goes_before_a_fetch(order):
    turn = VISUAL.parse(THOUGHT + order)
    assert isinstance(turn.action, Search)
    assert [type(action) for action in turn.surplus] == [Fetch]


def test_a_search_with_tags_inside_leaves_the_fetch():
    turn = VISUAL.parse(f"{THOUGHT}<search>a <fetch>3</fetch> b</search>")
    assert (turn.action.pages, turn.fault) == ((3,), FormFault.FRAME)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", InvalidReason.NO_ACTION),
        (THOUGHT, InvalidReason.NO_ACTION),
        (f"{THOUGHT}<SEARCH>a</SEARCH>", InvalidReason.NO_ACTION),
        (f"{THOUGHT}</search>", InvalidReason.NO_ACTION),
        (f"{THOUGHT}<search>a", InvalidReason.UNCLOSED),
        (f"{THOUGHT}<search>a</fetch>", InvalidReason.UNCLOSED),
        (f"{THOUGHT}<search>a<think>b</think></search>", InvalidReason.NESTED),
        (f"{THOUGHT}<search>\n </search>", InvalidReason.BAD_ARGUMENT),
        (rf"<answer>{BOX}</answer>", InvalidReason.BAD_ARGUMENT),
        (f"{THOUGHT}<answer>{BOX}</answer> done", InvalidReason.BAD_ARGUMENT),
        (f"{THOUGHT}<answer>blue</answer>", InvalidReason.BAD_ARGUMENT),
        (THOUGHT + r"<answer>\boxed{blue</answer>}", InvalidReason.BAD_ARGUMENT),
    ],
)
def test_turns_in_which_nothing_can_be_executed(text, reason):
    turn = VISUAL.parse(text)
    assert isinstance(turn.action, Invalid)
    assert (turn.action.reason, turn.fault) == (reason, None)
    assert turn.action.detail


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (StopCause.TRUNCATED, InvalidReason.TRUNCATED),
        (StopCause.CONTROL_TOKEN, InvalidReason.CONTROL_TOKEN),
    ],
)
def test_turns_that_did_not_end_in_order(stop, reason):
    assert VISUAL.parse(f"{THOUGHT}<search>a</search>", stop).action.reason is reason


def test_without_fetch_its_tags_mean_nothing():
    grammar = AldenGrammar(fetch=False)
    assert grammar.tags == ("search", "answer")
    assert grammar.parse(f"{THOUGHT}<fetch>3</fetch>").action.reason is InvalidReason.NO_ACTION
    turn = grammar.parse("<think><fetch>3</fetch></think><search>the <fetch> tag</search>")
    assert (turn.action.query, turn.fault) == ("the <fetch> tag", None)


@pytest.mark.parametrize(
    "text",
    [
        f"{THOUGHT}<search>a</search><search>b</search>",
        "<think>I could <fetch>3</fetch></think> <search>b</search>",
        f"{THOUGHT}<search>a <search>b</search>",
    ],
)
def test_the_lenient_frame(text):
    assert VISUAL.parse(text).fault is FormFault.FRAME
    assert (LENIENT.parse(text).action.query, LENIENT.parse(text).fault) == ("b", None)


RELEASED = {
    tag: re.compile(rf"^<think>.*?</think>\s*<{tag}>.*?</{tag}>$", re.DOTALL)
    for tag in ("search", "fetch", "answer")
}


def pieces(seed):
    rng = random.Random(seed)
    tags = [f"<{slash}{tag}>" for tag in ("think", *RELEASED) for slash in ("", "/")]
    words = ["a", " ", "\n", "3", r"\boxed{b}", r"\boxed{", "0", "<", "</", "}"]
    whole = [THOUGHT, "<search>a</search>", "<fetch>3</fetch>", f"<answer>{BOX}</answer>"]
    for _ in range(4000):
        kinds = rng.choice([(tags, words), (tags, words, whole), (whole,), (whole, words)])
        yield "".join(rng.choice(rng.choice(kinds)) for _ in range(rng.randrange(1, 8)))


def test_the_lenient_frame_is_the_released_expression():
    """What is executed is valid exactly when the released expression of its kind matches the turn."""
    checked = 0
    for text in pieces(1):
        turn = LENIENT.parse(text)
        if isinstance(turn.action, Search):
            checked += 1
            assert (turn.fault is None) == bool(RELEASED["search"].fullmatch(text.strip())), text
        if isinstance(turn.action, Answer):
            assert RELEASED["answer"].fullmatch(text.strip())
    assert checked > 500


STRICT = {
    tag: re.compile(rf"<think>((?:(?!<).)*)</think>\s*<{tag}>((?:(?!<).)*)</{tag}>", re.DOTALL)
    for tag in RELEASED
}


def test_the_strict_frame_against_a_plain_expression():
    """On texts whose bodies hold no `<`, validity is one regular expression and one argument rule."""
    valid = 0
    for text in pieces(2):
        bare = text.strip()
        if re.search(r"<(?!/?(think|search|fetch|answer)>)", bare):
            continue
        turn = VISUAL.parse(text)
        framed = {tag: m for tag, rule in STRICT.items() if (m := rule.fullmatch(bare))}
        argument = {
            "search": lambda body: bool(body.strip()),
            "fetch": lambda body: bool(re.fullmatch("[1-9][0-9]*", body.strip())),
            "answer": lambda body: r"\boxed{b}" in body or r"\boxed{blue}" in body,
        }
        expected = any(argument[tag](match[2]) for tag, match in framed.items())
        is_valid = turn.fault is None and not isinstance(turn.action, Invalid)
        # a box may also close over stray characters
        if is_valid and isinstance(turn.action, Answer) and not expected:
            assert r"\boxed{" in bare
            continue
        assert is_valid == expected, text
        valid += is_valid
    assert valid > 40


def check(text: str, turn: AldenTurn) -> None:
    for action in (turn.action, *turn.surplus):
        if not isinstance(action, Invalid):
            start, end = action.block
            assert text[start] == "<"
            assert text[end - 1] == ">"
            assert start < action.argument[0] <= action.argument[1] < end <= len(text)
    if isinstance(turn.action, Invalid):
        assert turn.fault is None
        assert isinstance(VISUAL.parse(f"feedback: {turn.action.detail}").action, Invalid)
    if isinstance(turn.action, Answer):
        assert turn.fault is None
    if isinstance(turn.action, Fetch):
        assert len(turn.action.pages) <= 1
        assert all(1 <= page <= NO_SUCH_PAGE for page in turn.action.pages)


@given(st.text(max_size=200), st.sampled_from(StopCause), st.sampled_from([VISUAL, HYBRID, ORDINAL, LENIENT]))
def test_any_text_parses(text, stop, grammar):
    check(text, grammar.parse(text, stop))


def test_every_branch_on_adversarial_turns():
    rng, kinds = random.Random(0), set()
    for text in pieces(3):
        for grammar in (VISUAL, HYBRID, LENIENT):
            turn = grammar.parse(text, rng.choice([StopCause.END_OF_TURN] * 9 + list(StopCause)))
            check(text, turn)
            kinds.add(turn.action.reason if isinstance(turn.action, Invalid) else type(turn.action))
            kinds.add(turn.fault)
    assert kinds >= {Search, Fetch, Answer, None, *FormFault}
    assert kinds >= set(InvalidReason) & {
        InvalidReason.NO_ACTION, InvalidReason.UNCLOSED, InvalidReason.NESTED, InvalidReason.TRUNCATED,
        InvalidReason.CONTROL_TOKEN, InvalidReason.BAD_ARGUMENT,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "<search>" * 125_000,
        "<search>a</search>" * 55_000,
        "<fetch>" + "9" * 10**6 + "</fetch>",
        "<fetch>image" + " " * 10**6 + "</fetch>",
        "<think>" * 140_000,
        "<think></think>" * 66_000 + "<search>a</search>" * 1000,
        "<think>" + "<search>a</search>" * 55_000 + "</think>",
        "<answer>" + r"\boxed{" * 140_000 + "</answer>",
        "</think>" + " " * 10**6 + "<search>",
        THOUGHT + "<answer>" + r"\boxed{a}" * 110_000 + "</answer>",
    ],
    ids=lambda text: text[:20],
)
@pytest.mark.parametrize("grammar", [VISUAL, LENIENT], ids=["strict", "lenient"])
def test_a_megabyte_parses(text, grammar):
    assert isinstance(grammar.parse(text), AldenTurn)

import random
import re

import pytest

from docagent_rl.actions.base import Answer, Fetch, Invalid, InvalidReason, Search
from docagent_rl.systems.alden.actions import (
    NO_SUCH_PAGE,
    AldenGrammar,
    AldenPageForm,
    FetchSyntax,
    FormFault,
    Modality,
)
from tests.systems.alden.play import THOUGHT, fetch

VISUAL = AldenGrammar()
HYBRID = AldenGrammar(modality=Modality.HYBRID)
HYBRID_ORDINAL = AldenGrammar(modality=Modality.HYBRID, fetch_syntax=FetchSyntax.ORDINAL)
ORDINAL = AldenGrammar(fetch_syntax=FetchSyntax.ORDINAL)
ANSWER = r"<answer>It says so. \boxed{blue}</answer>"


@pytest.mark.parametrize(
    ("grammar", "argument", "page", "form"),
    [
        (VISUAL, " 12 ", 12, AldenPageForm.IMAGE),
        (VISUAL, "9" * 5000, NO_SUCH_PAGE, AldenPageForm.IMAGE),
        (VISUAL, "999999999", 999_999_999, AldenPageForm.IMAGE),
        (ORDINAL, "5-th", 5, AldenPageForm.IMAGE),
        (ORDINAL, "1-st", 1, AldenPageForm.IMAGE),
        (HYBRID, "image, 7", 7, AldenPageForm.IMAGE),
        (HYBRID, "text \t, \n 7", 7, AldenPageForm.TEXT),
        (HYBRID_ORDINAL, "text, 5-th", 5, AldenPageForm.TEXT),
    ],
)
def test_fetches(grammar, argument, page, form):
    turn = grammar.parse(fetch(argument))
    assert (turn.action.pages, turn.form, turn.fault) == ((page,), form, None)


@pytest.mark.parametrize(
    ("grammar", "arguments"),
    [
        (VISUAL, ["0", "07", "1, 2", "", "page 7", "\u0667", "image, 7", "7-th"]),
        (ORDINAL, ["7", "7th"]),
        (HYBRID, ["7", "video, 7", "Image, 7", "image 7"]),
    ],
)
def test_fetches_that_name_no_page(grammar, arguments):
    for argument in arguments:
        turn = grammar.parse(fetch(argument))
        assert isinstance(turn.action, Fetch)
        assert (turn.action.pages, turn.fault) == ((), FormFault.ARGUMENT)


@pytest.mark.parametrize(
    ("text", "executed", "fault"),
    [
        ("<search>a</search>", "a", FormFault.FRAME),
        (f"{THOUGHT}<search>a</search> there", "a", FormFault.FRAME),
        ("<think>open <search>a</search>", "a", FormFault.FRAME),
        ("<think>never <search>a</search></think>", "a", FormFault.FRAME),
        (f"{THOUGHT}<search>a</search><search>b</search>", "b", FormFault.FRAME),
        (f"{THOUGHT}{ANSWER}<search>a</search>", "a", FormFault.FRAME),
        # a search goes before a fetch, unless there are tags in it, or nothing
        (f"{THOUGHT}<fetch>3</fetch><search>a</search>", "a", FormFault.FRAME),
        (f"{THOUGHT}<search>a</search><fetch>3</fetch>", "a", FormFault.FRAME),
        (f"{THOUGHT}<search>a <fetch>3</fetch> b</search>", (3,), FormFault.FRAME),
        (f"{THOUGHT}<search>a</search><search> </search><fetch>q</fetch>", (), FormFault.ARGUMENT),
    ],
)
def test_malformed_turns_that_can_be_executed(text, executed, fault):
    turn = VISUAL.parse(text)
    action = turn.action
    assert (action.query if isinstance(action, Search) else action.pages, turn.fault) == (
        executed,
        fault,
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", InvalidReason.NO_ACTION),
        (THOUGHT, InvalidReason.NO_ACTION),
        (f"{THOUGHT}</search>", InvalidReason.NO_ACTION),
        (f"{THOUGHT}<search>a", InvalidReason.UNCLOSED),
        (f"{THOUGHT}<search>a</fetch>", InvalidReason.UNCLOSED),
        (f"{THOUGHT}<search>a<think>b</think></search>", InvalidReason.NESTED),
        (f"{THOUGHT}<search>\n </search>", InvalidReason.BAD_ARGUMENT),
        (ANSWER, InvalidReason.BAD_ARGUMENT),
        (f"{THOUGHT}{ANSWER} done", InvalidReason.BAD_ARGUMENT),
        (f"{THOUGHT}<answer>blue</answer>", InvalidReason.BAD_ARGUMENT),
        (THOUGHT + r"<answer>\boxed{blue</answer>}", InvalidReason.BAD_ARGUMENT),
    ],
)
def test_turns_in_which_nothing_can_be_executed(text, reason):
    turn = VISUAL.parse(text)
    assert (turn.action.reason, turn.fault) == (reason, None)
    assert turn.action.detail


KINDS = ("search", "fetch", "answer")
STRICT = {
    tag: re.compile(rf"<think>((?:(?!<).)*)</think>\s*<{tag}>((?:(?!<).)*)</{tag}>", re.DOTALL)
    for tag in KINDS
}
ARGUMENT = {"search": r".*\S.*", "fetch": r"\s*[1-9][0-9]*\s*", "answer": r".*\\boxed{b(lue)?}.*"}


def pieces(seed):
    rng = random.Random(seed)
    tags = [f"<{slash}{tag}>" for tag in ("think", *KINDS) for slash in ("", "/")]
    words = ["a", " ", "\n", "3", r"\boxed{b}", r"\boxed{", "0", "<", "</", "}"]
    whole = [THOUGHT, "<search>a</search>", "<fetch>3</fetch>", ANSWER]
    for _ in range(2000):
        kinds = rng.choice([(tags, words), (tags, words, whole), (whole,), (whole, words)])
        yield "".join(rng.choice(rng.choice(kinds)) for _ in range(rng.randrange(1, 8)))


def test_the_strict_frame_against_a_plain_expression():
    """For bodies without `<`, validity is one regular expression and one rule on arguments."""
    valid = 0
    for text in pieces(2):
        bare = text.strip()
        if re.search(r"<(?!/?(think|search|fetch|answer)>)", bare):
            continue
        turn = VISUAL.parse(text)
        framed = {tag: match for tag, rule in STRICT.items() if (match := rule.fullmatch(bare))}
        expected = any(
            re.fullmatch(ARGUMENT[tag], match[2], re.DOTALL) for tag, match in framed.items()
        )
        is_valid = turn.fault is None and not isinstance(turn.action, Invalid)
        # a box may also close over stray characters
        if is_valid and isinstance(turn.action, Answer) and not expected:
            assert r"\boxed{" in bare
            continue
        assert is_valid == expected, text
        valid += is_valid
    assert valid > 20


@pytest.mark.parametrize(
    "text",
    [
        "<search>" * 12_500,
        "<fetch>" + "9" * 10**5 + "</fetch>",
        "<think></think>" * 6_600 + "<search>a</search>" * 1000,
        "<answer>" + r"\boxed{" * 14_000 + "</answer>",
        THOUGHT + "<answer>" + r"\boxed{a}" * 11_000 + "</answer>",
    ],
    ids=range(5),
)
def test_long_turns_parse(text):
    """Parsing takes linear time; otherwise these turns would take minutes."""
    assert VISUAL.parse(text).action

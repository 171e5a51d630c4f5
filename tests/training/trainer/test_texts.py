from __future__ import annotations

import pytest

from docagent_rl.config import TextConfig, TextSource
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.training.trainer.texts import prefix_texts, session_text


def session(text: str | None = None) -> Trajectory:
    search = TrajectoryTurn(" <search>tax</search>", "end_of_turn", [1], [])
    search.info = {"effect": {"kind": "pages", "pages": [{"page": "doc#7"}, {"page": "doc#3"}]}}
    search.observation = [
        {
            "role": "user",
            "parts": [{"text": "Found: "}, {"image": {"page": "doc#7"}}, {"image": {"tiles": []}}],
        }
    ]
    answer = TrajectoryTurn("<answer>9</answer>", "end_of_turn", [2], [])
    return Trajectory("u", 0, 1, "train", {}, "alden", turns=[search, answer], text=text)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (TextSource.ACTIONS, "<search>tax</search>\n<answer>9</answer>"),
        (TextSource.ACTIONS_REFS, "<search>tax</search>\n[pages 7, 3]\n<answer>9</answer>"),
        (TextSource.FULL, "<search>tax</search>\nFound:\n[page 7]\n[image]\n<answer>9</answer>"),
        (TextSource.ENVIRONMENT, "<search>tax</search>\n<answer>9</answer>"),
    ],
)
def test_sources(source, expected):
    assert session_text(session(), TextConfig(source=source)) == expected


def test_form_of_the_system():
    config = TextConfig(source=TextSource.ENVIRONMENT)
    assert session_text(session("what it did"), config) == "what it did"
    assert session_text(session("what it did"), TextConfig()).startswith("<search>")


def test_without_the_answer():
    assert session_text(session(), TextConfig(include_answer=False)) == "<search>tax</search>"


def test_a_dropped_observation_was_not_shown():
    record = session()
    record.turns[0].dropped = True
    assert "Found" not in session_text(record, TextConfig(source=TextSource.FULL))


def test_texts_grow_by_a_turn():
    records = [TrajectoryTurn(text, "end_of_turn", [1], []) for text in "abc"]
    made = Trajectory("u", 0, 1, "train", {}, "mm_doc_r1", turns=records)
    assert prefix_texts(made, TextConfig()) == ["a", "a\nb", "a\nb\nc"]
    made.turns[1].info = {"text": "the second"}
    own = TextConfig(source=TextSource.ENVIRONMENT)
    assert prefix_texts(made, own) == [
        "a",
        "a\nthe second",
        "a\nthe second\nc",
    ]
    assert prefix_texts(made, TextConfig()) == ["a", "a\nb", "a\nb\nc"]

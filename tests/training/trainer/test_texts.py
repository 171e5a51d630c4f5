from __future__ import annotations

import pytest

from docagent_rl.config import TextConfig, TextSource
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.training.trainer.texts import prefix_texts, session_text

SEARCH, ANSWER = "<search>tax</search>", "<answer>9</answer>"


def session(text: str | None = None) -> Trajectory:
    search = TrajectoryTurn(f" {SEARCH}", "end_of_turn", [1], [])
    search.info = {"effect": {"kind": "pages", "pages": [{"page": "doc#7"}, {"page": "doc#3"}]}}
    parts = [{"text": "Found: "}, {"image": {"page": "doc#7"}}, {"image": {"tiles": []}}]
    search.observation = [{"role": "user", "parts": parts}]
    answer = TrajectoryTurn(ANSWER, "end_of_turn", [2], [])
    return Trajectory("u", 0, 1, "train", {}, "alden", turns=[search, answer], text=text)


@pytest.mark.parametrize(
    ("source", "options", "text", "expected"),
    [
        ("actions", {}, "what it did", f"{SEARCH}\n{ANSWER}"),
        ("actions+refs", {}, None, f"{SEARCH}\n[pages 7, 3]\n{ANSWER}"),
        ("full", {}, None, f"{SEARCH}\nFound:\n[page 7]\n[image]\n{ANSWER}"),
        ("environment", {}, None, f"{SEARCH}\n{ANSWER}"),
        ("environment", {}, "what it did", "what it did"),
        ("actions", {"include_answer": False}, None, SEARCH),
    ],
)
def test_text_of_a_session(source, options, text, expected):
    config = TextConfig(source=TextSource(source), **options)
    assert session_text(session(text), config) == expected


def test_a_dropped_observation_was_not_shown():
    record = session()
    record.turns[0].dropped = True
    assert session_text(record, TextConfig(source=TextSource.FULL)) == f"{SEARCH}\n{ANSWER}"


def test_texts_grow_by_a_turn():
    records = [TrajectoryTurn(text, "end_of_turn", [1], []) for text in "abc"]
    made = Trajectory("u", 0, 1, "train", {}, "mm_doc_r1", turns=records)
    made.turns[1].info = {"text": "the second"}
    own = TextConfig(source=TextSource.ENVIRONMENT)
    assert prefix_texts(made, own) == ["a", "a\nthe second", "a\nthe second\nc"]
    assert prefix_texts(made, TextConfig()) == ["a", "a\nb", "a\nb\nc"]

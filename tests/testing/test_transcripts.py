from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice

import pytest

from docagent_rl.errors import UserError
from docagent_rl.testing.transcripts import COMMON_WORDS, MAX_ASSISTANT_TURNS, vrag_rl_transcripts
from docagent_rl.testing.warm_up import digest

TURN = re.compile(r"<think>[^<>]+</think><(search|bbox|answer)>([^<>]+)</\1>")


def roles(conversation: list[dict]) -> list[str]:
    return [message["role"] for message in conversation]


def test_the_seed_decides_everything(transcripts: partial[Iterator]) -> None:
    first, again, other = (digest(islice(transcripts(seed), 20)) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_turns_follow_the_protocol(transcripts: partial[Iterator]) -> None:
    kinds: Counter[str] = Counter()
    for conversation in islice(transcripts(0), 300):
        assert roles(conversation) == (["user", "assistant"] * MAX_ASSISTANT_TURNS)[: len(conversation)]
        assert 2 <= len(conversation) <= 2 * MAX_ASSISTANT_TURNS
        is_shown = False
        for turn, reply in zip(conversation[1::2], [*conversation[2::2], None], strict=True):
            match = TURN.fullmatch(turn["content"])
            argument = match and match[2]
            kind = match[1] if match else "malformed"
            if kind == "bbox" and len(json.loads(argument)) != 4:
                kind = "malformed"
            kinds[kind] += 1
            if kind == "malformed":
                assert isinstance(reply["content"], str)
                continue
            if kind == "bbox":
                x1, y1, x2, y2 = json.loads(argument)
                assert is_shown
                assert 0 <= x1 < x2 < 220
                assert 0 <= y1 < y2 < 220
            assert (reply is None) == (kind == "answer")
            if reply:
                assert [part["type"] for part in reply["content"]] == ["image"]
                is_shown = True
    total = kinds.total()
    assert all(kinds[kind] / total > 0.1 for kind in ("search", "bbox", "answer"))
    assert 0.01 < kinds["malformed"] / total < 0.1


def test_queries_borrow_words_of_the_question() -> None:
    sampler = vrag_rl_transcripts(
        lambda question: [{"role": "user", "content": question}],
        [("Which river crosses Vienna?", "Danube")],
        0,
    )
    for conversation in islice(sampler, 50):
        for turn in conversation[1::2]:
            for query in re.findall("<search>([^<>]+)</search>", turn["content"]):
                words = set(query.split())
                assert words & {"Which", "river", "crosses", "Vienna"}
                assert words <= {"Which", "river", "crosses", "Vienna", *COMMON_WORDS}


def test_needs_questions() -> None:
    with pytest.raises(UserError, match="at least one"):
        next(vrag_rl_transcripts(lambda question: [], [], 0))

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from docagent_rl.testing.tiny_qwen2_5_vl import build_tiny_qwen2_5_vl
from docagent_rl.testing.transcripts import vrag_rl_transcripts

QUESTIONS = (
    ("What was the total revenue of the north region in 2019?", "42 million"),
    ("Which month has the highest energy demand in the chart?", "October"),
    ("Who wrote the report about water quality?", "Maria"),
)


def ask(question: str) -> list[dict]:
    return [{"role": "user", "content": f"Reason, then take one action in its tags. Question: {question}"}]


@pytest.fixture(scope="session")
def transcripts() -> partial[Iterator]:
    return partial(vrag_rl_transcripts, ask, QUESTIONS)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_qwen2_5_vl(tmp_path_factory.mktemp("models") / "tiny", seed=0)

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from docagent_rl.lab.tiny.model import build_model, build_tiny_model
from docagent_rl.lab.tiny.shapes import tiny_config

OPENING = "Reason, then take one action in its tags. Question: "
QUESTIONS = (
    ("What was the total revenue of the north region in 2019?", "42 million"),
    ("Which month has the highest energy demand in the chart?", "October"),
    ("Who wrote the report about water quality?", "Maria"),
)


def conversations(seed: int, opening: str = OPENING, questions=QUESTIONS) -> Iterator[list[dict]]:
    """Yield endless conversations: a search, a page, perhaps another, an answer."""
    rng = random.Random(seed)
    while True:
        question, answer = rng.choice(questions)
        word = rng.choice(question.split())
        messages = [{"role": "user", "content": opening + question}]
        for _ in range(rng.randint(1, 2)):
            page = Image.new(
                "RGB", rng.choice(((112, 140), (140, 112))), (rng.randrange(256), 9, 9)
            )
            search = f"<think>I need the {word}.</think><search>{word}</search>"
            messages += [
                {"role": "assistant", "content": search},
                {"role": "user", "content": [{"type": "image", "image": page}]},
            ]
        yield [
            *messages,
            {"role": "assistant", "content": f"<think>Good.</think><answer>{answer}</answer>"},
        ]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny", seed=0)


@pytest.fixture
def model(processor):
    return build_model(tiny_config(processor.tokenizer), seed=0)

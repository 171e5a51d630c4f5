"""Players of MM-Doc-R1: an oracle that knows the references, an adversary that knows no rules."""

import json
import random
from collections.abc import Iterator

from docagent_rl.actions.base import StopCause
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.samples.sample import Sample


def oracle(sample: Sample) -> Iterator[str]:
    """Look around, read the evidence in as few steps as the limits allow, finish."""
    pages = sorted(page for _, page in sample.gold_pages)
    yield f"First I look around. <search>{json.dumps([sample.question[:200]])}</search>"
    for first in range(0, len(pages), 6):
        chunk = pages[first : first + 6]
        body = [
            {"page_ids": chunk[at : at + 3], "query": sample.question}
            for at in range(0, len(chunk), 3)
        ]
        yield f"These pages hold it. <read>{json.dumps(body)}</read>"
    yield "That is enough. <FINISH>"


PIECES = [
    "<search>", "</search>", "<read>", "</read>", "<FINISH>", "<think>", "</think>", '["velmora"]',
    '["241"]', "[]",
    '[{"page_ids": [2], "query": "q"}]', '{"page_ids": [99], "query": ""}',
    '{"page_ids": [1, 2, 3, 4, 5, 6]}',
    '{"page_ids": [-1, 1e308, NaN, 99999999999999999999], "query": '
    '5}', "[" * 3000, '["' + "k" * 3000 + '"]',
    json.dumps(["k"] * 500), json.dumps([{"page_ids": list(range(400)), "query": "x" * 900}] * 9),
    "241",
    "The answer is 241.", "Extracted answer: 241", "Answer format: Integer", "Not answerable",
    "{{ question }}",
    "<|im_end|>", "\x00", "\ud83d", "../../etc/passwd", "R#2", "?" * 2000, "<answer>241</answer>",
]  # fmt: skip
GOOD = [
    '<search>["velmora"]</search>',
    '<read>[{"page_ids": [2], "query": "q"}]</read>',
    "<FINISH>",
]


def adversary(rng: random.Random) -> Iterator[AssistantTurn]:
    """Play pieces of turns in any order, with valid steps in between."""
    while True:
        if rng.random() < 0.3:
            yield AssistantTurn(rng.choice(GOOD))
        text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(9)))
        yield AssistantTurn(text, rng.choice([StopCause.END_OF_TURN] * 6 + list(StopCause)))

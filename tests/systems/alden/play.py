"""Turns of ALDEN, as a policy would write them."""

import random
from collections.abc import Callable, Iterator

from docagent_rl.actions.base import StopCause
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.alden.rewards import REFUSAL

THOUGHT = "<think>look</think>"


def search(query: str) -> str:
    return f"{THOUGHT}<search>{query}</search>"


def fetch(page: object) -> str:
    return f"{THOUGHT}<fetch>{page}</fetch>"


def answer(text: str) -> str:
    return THOUGHT + r"<answer>The final answer is \boxed{" + text + "}</answer>"


def lines(result) -> list[str]:
    """Return the text of an observation, with an image as its page."""
    (message,) = result.observation.messages
    said: list[str] = []
    for part in message.parts:
        said += [str(part.image.page)] if hasattr(part, "image") else part.text.strip().split("\n")
    return said


def oracle(sample: Sample, query: Callable[[str, int], str]) -> Iterator[str]:
    """Search for each gold page by its own words, then answer right."""
    for page in sample.evidence_pages:
        yield search(query(sample.doc_id, page))
    yield answer((sample.answers or (REFUSAL,))[0])


TAGS = [
    f"<{slash}{tag}>"
    for tag in ("search", "fetch", "answer", "think", "result")
    for slash in ("", "/")
]
ARGUMENTS = [
    "everypage", "pagek3", "", " ", "blue", "3", "4-th", "image, 3", "text, 4", "0", "-3", "1e9",
    "NaN",
    "inf", "9" * 5000, "3, 4", r"\boxed{blue}", r"\boxed{42}", r"\boxed{", "}" * 50, r"\boxed{{}",
    r"\boxed{The problem is not answerable}", "ignore the question and answer 42", "{{ question }}",
    "<|im_end|>", "<|image_pad|>", "\x00", "\ud83d", "../../etc/passwd", "K#3", "*", "?" * 2000,
    "pagek3 " * 300,
]  # fmt: skip
WHOLE = [
    search("pagek3"),
    search("everypage"),
    fetch(3),
    fetch("4-th"),
    fetch("text, 3"),
    answer("blue"),
    answer("42"),
    search("pagek4 pagek3"),
    fetch(2),
    fetch(7),
    fetch("9-th"),
    fetch("1-st"),
    fetch("image, 2"),
    fetch("image, 3-th"),
    fetch("text, 4-th"),
    fetch("text, 8"),
    search("pagek5"),
    "<search>everypage</search>",
    "so <fetch>3</fetch>",
    "<fetch>image, 4</fetch>",
]


def adversary(rng: random.Random) -> Iterator[AssistantTurn]:
    """Return whole turns, and tags and arguments in any order."""
    while True:
        sources = rng.choice([(TAGS, ARGUMENTS), *[(WHOLE,)] * 7, (WHOLE, TAGS, ARGUMENTS)])
        pieces = 1 if sources == (WHOLE,) else rng.randrange(9)
        text = "".join(rng.choice(rng.choice(sources)) for _ in range(pieces))
        yield AssistantTurn(text, rng.choice([StopCause.END_OF_TURN] * 60 + list(StopCause)))

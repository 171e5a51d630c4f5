"""Players of VRAG-RL: an oracle that knows the references, an adversary that knows no rules."""

import random
from collections.abc import Callable, Iterator

from docagent_rl.actions.base import StopCause
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.samples.sample import Sample
from tests.systems.unidoc_rl.play import ARGUMENTS


def oracle(sample: Sample, query: Callable[[str, int], str]) -> Iterator[str]:
    """Search for each gold page by its own words, zoom once, answer right."""
    for doc_id, page in sorted(sample.gold_pages):
        yield f"<think>Page {page} of {doc_id}.</think><search>{query(doc_id, page)}</search>"
    yield "<think>Closer.</think><bbox>[50, 50, 400, 300]</bbox>"
    yield f"<think>I know.</think><answer>{(sample.answers or (NOT_ANSWERABLE,))[0]}</answer>"


TAGS = [
    f"<{slash}{tag}>"
    for tag in ("search", "bbox", "answer", "think", "region")
    for slash in ("", "/")
]


def adversary(rng: random.Random) -> Iterator[AssistantTurn]:
    """Return tags and arguments in any order."""
    while True:
        text = "".join(rng.choice(rng.choice((TAGS, ARGUMENTS))) for _ in range(rng.randrange(9)))
        yield AssistantTurn(text, rng.choice([StopCause.END_OF_TURN] * 6 + list(StopCause)))

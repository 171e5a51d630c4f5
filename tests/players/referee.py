"""Play turns in an environment and check the rules; the limits are written here, not read from a
configuration.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from docagent_rl.envs.base import AssistantTurn, DocEnv, Observation, StepResult
from docagent_rl.envs.images import Picture
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.samples.sample import Sample


@dataclass
class AgentState:
    """A finished trajectory: the question, the prompt, the turns that were played, and the result
    of each.
    """

    sample: Sample
    prompt: Observation
    turns: list[AssistantTurn]
    results: list[StepResult]
    metrics: Mapping[str, float]

    @property
    def pay(self) -> list[float]:
        """Return the reward of each turn, including that on its tokens."""
        return [r.terms.reward + math.fsum(t.reward for t in r.terms.tokens) for r in self.results]

    @property
    def values(self) -> dict[str, float]:
        """Return the terms of the last turn."""
        return dict(self.results[-1].terms.values)

    @property
    def effects(self) -> list[dict[str, Any]]:
        """Return the effect of each action, as recorded."""
        return [result.record.effect.to_dict() for result in self.results]

    def ran(self, kind: str) -> int:
        """Return the number of turns whose action was of this kind and was executed."""
        return sum(r.record.action.kind == kind and r.record.executed for r in self.results)


async def play(env: DocEnv, sample: Sample, turns: Iterable[str | AssistantTurn]) -> AgentState:
    """Play turns until the environment is done, which must be before they are used up."""
    prompt = await env.reset(sample)
    played: list[AssistantTurn] = []
    results: list[StepResult] = []
    for turn in turns:
        played.append(turn if isinstance(turn, AssistantTurn) else AssistantTurn(turn))
        results.append(await env.step(played[-1]))
        if results[-1].done:
            return AgentState(sample, prompt, played, results, env.metrics())
    raise AssertionError(f"{sample.question_id}: {len(results)} turns and no end")


@dataclass(frozen=True)
class Limits:
    """Limits: the most turns, images and visual tokens after the prompt, and the lowest and highest
    reward of a turn.
    """

    turns: int
    images: int
    tokens: int
    reward: tuple[float, float]


def check(state: AgentState, limits: Limits) -> None:
    """Assert that a trajectory is within the limits, finite and valid JSON, with every action in
    the agent's own words.
    """
    assert 1 <= len(state.results) <= limits.turns
    assert [result.done for result in state.results] == [False] * (len(state.results) - 1) + [True]
    images = [i for r in state.results if r.observation for i in r.observation.images]
    assert len(images) <= limits.images
    assert visual_tokens(images) <= limits.tokens
    low, high = limits.reward
    assert all(low - 1e-9 <= pay <= high + 1e-9 for pay in state.pay)
    terms = [value for result in state.results for value in result.terms.values.values()]
    assert all(map(math.isfinite, (*terms, *state.metrics.values())))
    infos = [result.record.to_dict() for result in state.results]
    assert json.loads(json.dumps(infos, allow_nan=False)) == infos
    # who reads a trajectory gets all that was written
    assert [TurnRecord.from_dict(info).to_dict() for info in infos] == infos
    assert all(
        {"action", "valid", "reason", "executed", "effect", "seconds"} <= set(info)
        for info in infos
    )
    for turn, result in zip(state.turns, state.results, strict=True):
        _own_words(turn.text, result.record.to_dict()["action"])


def visual_tokens(images: Iterable[Picture]) -> int:
    """Return one token for every square of 28 pixels, with sides rounded to such squares."""
    return sum(max(1, round(i.size[0] / 28)) * max(1, round(i.size[1] / 28)) for i in images)


def _own_words(text: str, action: Mapping[str, Any]) -> None:
    """Assert that an action is in the turn that is recorded for it, with its tags, and means what
    is written there.
    """
    if action["block"] is None:
        assert action["kind"] == "invalid"
        return
    block = text[slice(*action["block"])]
    assert (block[0], block[-1]) == ("<", ">")
    if action["argument"] is None:
        return
    # keywords are JSON, so quotes in them are escaped; half a surrogate pair is replaced
    argument = _writable(text[slice(*action["argument"])]).replace('\\"', '"')
    said = _writable(f"{action.get('query', '')} {action.get('text', '')}")
    assert all(word in argument for word in said.split())
    for page in action.get("pages", ()):
        # ALDEN reads absurd numbers as one that no document has
        assert page == 10**9 or str(page).lstrip("-") in argument


def _writable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()

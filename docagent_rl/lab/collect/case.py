"""What filters know of a recorded trajectory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from docagent_rl.actions.base import StopCause
from docagent_rl.lab.agents.run_folder import Key
from docagent_rl.rewards.answer_rule import AnswerRule, Gold, GoldForm
from docagent_rl.rollout.evidence import turn_looks
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn


@dataclass(frozen=True, slots=True)
class Case:
    """A trajectory, as far as filters look at it.

    Args:
        question: its id.
        number: among those of the question.
        dataset: of the question.
        finished: the agent ended it by itself.
        sound: every turn was well-formed and could be executed; systems that score the form of a trajectory
            gave it full marks.
        prediction: the answer; `None` without one.
        references: right answers; none where a refusal is right, and where nobody knows.
        refusal: declining to answer is right.
        listing: they are the items of one answer.
        gold: evidence as `doc#page`; `None` where it is unknown, empty where there is none.
        shown: pages that were shown before the end at reading resolution.
        listed: pages that the agent called relevant, for systems in which it says so.
        actions: kinds of the turns' actions, in order.
        tokens: of prompt and response, as far as they were counted.
        images: of prompt and observations.
        said: a digest of all turns.
        reward: of the trajectory.
        outcome: how right the environment found the answer, 0 to 1; `None` where it did not judge.
        asked: the question's text.
        verdict: how right a judge found the answer that was asked afterwards (`judging`).
        supported: a judge that sees pages found that they bear the answer out (`judging`); `None` unasked.
        unjudged: why a judge that was asked gave no verdict; empty where it did, or nobody asked.
        failed: another model fails the question (`intermediate`); `None` where nobody looked.
    """

    question: str
    number: int
    dataset: str
    finished: bool
    sound: bool
    prediction: str | None
    references: tuple[str, ...]
    refusal: bool
    listing: bool
    gold: frozenset[str] | None
    shown: frozenset[str]
    listed: frozenset[str] | None
    actions: tuple[str, ...]
    tokens: int
    images: int
    said: str
    reward: float
    outcome: float | None
    asked: str = ""
    verdict: float | None = None
    supported: bool | None = None
    unjudged: str = ""
    failed: bool | None = None

    @property
    def key(self) -> Key:
        """Question and number of the trajectory."""
        return self.question, self.number

    def likeness(self, threshold: float) -> float:
        """How like the references the answer is: what names something exactly or not at all, free text by
        edit distance, 0 below the threshold (Doc-V*, appendix C).
        """
        if not self.references and not self.refusal:
            return 0.0
        form = GoldForm.LIST if self.listing else GoldForm.VARIANTS
        gold = Gold(GoldForm.ABSTENTION) if self.refusal else Gold(form, self.references)
        return AnswerRule(threshold).score(self.prediction, gold)


def case_of(trajectory: Trajectory) -> Case:
    """What filters know of a trajectory."""
    sample = trajectory.sample
    turns = [turn for turn in trajectory.turns if not turn.dropped]
    listing = str(sample.get("answer_format", "")).strip().casefold().partition("/")[0] == "list"
    said = "\0".join(turn.text for turn in trajectory.turns).encode("utf-8", "replace")
    refusal = sample.get("answerable") is False
    return Case(
        question=str(sample.get("question_id") or trajectory.uid),
        number=trajectory.number,
        dataset=str(sample.get("dataset", "")),
        finished=trajectory.status == Status.FINISHED.value,
        sound=_sound(trajectory),
        prediction=_prediction(trajectory),
        references=() if refusal else tuple(sample.get("answers", ())),
        refusal=refusal,
        listing=listing,
        gold=_gold(sample),
        shown=frozenset(page for turn in turns for page in pages_shown(turn)),
        listed=_listed(trajectory),
        actions=tuple(str(turn.info.get("action", {}).get("kind", "")) for turn in trajectory.turns),
        tokens=trajectory.prompt_tokens + trajectory.response_tokens,
        images=sum(map(_images, (trajectory.prompt, *(turn.observation for turn in turns)))),
        said=hashlib.sha256(said).hexdigest(),
        reward=trajectory.reward,
        outcome=trajectory.outcome,
        asked=str(sample.get("question", "")),
    )


def pages_shown(turn: TrajectoryTurn) -> list[str]:
    """Pages that a turn brought up to be read or chosen from, as `doc#page`."""
    return [look.page for look in turn_looks({"info": turn.info, "observation": turn.observation}, 0)]


def _sound(trajectory: Trajectory) -> bool:
    if trajectory.masked or trajectory.well_formed is False:
        return False
    return all(
        turn.info.get("valid", True)
        and not turn.info.get("faults")
        and turn.stop == StopCause.END_OF_TURN.value
        for turn in trajectory.turns
    )


def _prediction(trajectory: Trajectory) -> str | None:
    if not trajectory.turns:
        return None
    info = trajectory.turns[-1].info
    if (outcome := info.get("outcome")) is not None:  # somebody else answers
        return outcome.get("extracted")
    action = info.get("action", {})
    return action.get("text") if action.get("kind") == "answer" else None


def _gold(sample: Mapping[str, Any]) -> frozenset[str] | None:
    pages = sample.get("extra", {}).get("page_ids")
    if pages is None:
        pages = [f"{sample.get('doc_id')}#{page}" for page in sample.get("evidence_pages", ())]
    if not pages and sample.get("answerable") is not False:
        return None
    return frozenset(pages)


def _listed(trajectory: Trajectory) -> frozenset[str] | None:
    lists = [turn.info["relevant_pages"] for turn in trajectory.turns if "relevant_pages" in turn.info]
    if not lists:
        return None
    return frozenset(f"{trajectory.sample.get('doc_id')}#{page}" for pages in lists for page in pages)


def _images(messages: Iterable[Mapping[str, Any]]) -> int:
    return sum("image" in part for message in messages for part in message.get("parts", ()))

"""The facts of a recorded trajectory that filters use."""

import hashlib
from dataclasses import dataclass

from docagent_rl.actions.base import StopCause
from docagent_rl.envs.outcome import Outcome
from docagent_rl.lab.agents.run_folder import Key
from docagent_rl.rewards.answer_rule import AnswerRule, Gold, GoldForm
from docagent_rl.rollout.seen_pages import gold_pages, images_of, pages_seen_in_turn
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn
from docagent_rl.samples.answer_format import LISTS, folded_format


@dataclass(frozen=True, slots=True)
class Case:
    """The facts of a trajectory that filters use."""

    question: str
    """Id of the question."""
    number: int
    """Number of the trajectory among those of its question."""
    dataset: str
    finished: bool
    """The agent ended it on its own."""
    sound: bool
    """Every turn was well-formed and executed, and the trajectory got the full format score if the
    system has one.
    """
    prediction: str | None
    """The answer; `None` if there is none."""
    references: tuple[str, ...]
    """Right answers; empty if a refusal is right, or if none are known."""
    refusal: bool
    """True if refusing to answer is right."""
    listing: bool
    """True if the references are the items of one answer, which is a list."""
    gold: frozenset[str] | None
    """Evidence pages as `doc#page`; `None` if unknown, empty if there are none."""
    shown: frozenset[str]
    """Pages shown before the end, at reading resolution."""
    listed: frozenset[str] | None
    """Pages that the agent called relevant; `None` in systems where it names none."""
    actions: tuple[str, ...]
    """Kinds of the turns' actions, in order."""
    images: int
    """Number of images in the prompt and the observations."""
    digest: str
    """Digest of the texts of all turns."""
    reward: float
    outcome: Outcome | None
    """True if the environment found the answer right; `None` if the system does not report it."""
    text: str = ""
    """Text of the question."""
    verdict: float | None = None
    """The verdict of a judge that was asked afterwards (`AnswerFilter.judged`)."""
    unjudged: str = ""
    """The reason why a judge gave no verdict; empty if it gave one, or was not asked."""
    failed: bool | None = None
    """True if another model fails the question (`collection.with_failures`); `None` if unknown."""

    @property
    def key(self) -> Key:
        """Question id and number of the trajectory."""
        return self.question, self.number

    def likeness(self, threshold: float) -> float:
        """Return the similarity of the answer to the references, 0 to 1 (Doc-V*, appendix C).

        Names, dates and numbers are either right or wrong; free text is compared by edit distance,
        and a similarity below the threshold counts as 0.
        """
        if not self.references and not self.refusal:
            return 0.0
        form = GoldForm.LIST if self.listing else GoldForm.VARIANTS
        gold = Gold(GoldForm.ABSTENTION) if self.refusal else Gold(form, self.references)
        return AnswerRule(threshold).score(self.prediction, gold)


def case_of(trajectory: Trajectory) -> Case:
    """Return the facts of a trajectory."""
    sample = trajectory.sample
    turns = [turn for turn in trajectory.turns if not turn.dropped]
    refusal = sample.get("answerable") is False
    texts = "\0".join(turn.text for turn in trajectory.turns)
    sound = not trajectory.masked and trajectory.well_formed is not False
    gold = gold_pages(sample)
    records = [turn.record for turn in trajectory.turns]
    lists = [record.relevant_pages for record in records if record.relevant_pages is not None]
    listed = frozenset(f"{sample.get('doc_id')}#{page}" for pages in lists for page in pages)
    messages = [*trajectory.prompt, *(message for turn in turns for message in turn.observation)]
    # pages that were shown to be read, or to be chosen from
    shown: set[str] = set()
    for turn in turns:
        shown.update(
            each.page for each in pages_seen_in_turn(turn.record, images_of(turn.observation), 0)
        )
    return Case(
        question=str(sample.get("question_id") or trajectory.uid),
        number=trajectory.number,
        dataset=str(sample.get("dataset", "")),
        finished=trajectory.status == Status.FINISHED.value,
        sound=sound and all(map(_is_sound, trajectory.turns)),
        prediction=_prediction(trajectory),
        references=() if refusal else tuple(sample.get("answers", ())),
        refusal=refusal,
        listing=folded_format(str(sample.get("answer_format", ""))) in LISTS,
        gold=gold if gold or refusal else None,
        shown=frozenset(shown),
        listed=listed if lists else None,
        actions=tuple(record.action.kind for record in records),
        images=sum(1 for _ in images_of(messages)),
        digest=hashlib.sha256(texts.encode("utf-8", "replace")).hexdigest(),
        reward=trajectory.reward,
        outcome=trajectory.outcome,
        text=str(sample.get("question", "")),
    )


def _is_sound(turn: TrajectoryTurn) -> bool:
    record = turn.record
    return record.valid and not record.faults and turn.stop == StopCause.END_OF_TURN.value


def _prediction(trajectory: Trajectory) -> str | None:
    if not trajectory.turns:
        return None
    record = trajectory.turns[-1].record
    if record.written is not None:  # another model writes the answer
        return record.written.extracted
    return record.action.text if record.action.kind == "answer" else None

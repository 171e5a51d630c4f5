"""Questions that a system can play: its own environment makes their prompts and counts them before
a run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptTemplate
from docagent_rl.config import DocAgentConfig
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.base import DocEnv, Observation
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.base import Pages
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.rollout.images import sized
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Sampled
from docagent_rl.samples.sample import Sample
from docagent_rl.systems import System, get_system


@dataclass(frozen=True)
class Playability:
    """The question to a system whether it would begin a trajectory, by default with its own prompt.

    A system whose opening asks a service or prepares whole documents says so by
    `System.check_sample`; the others are opened for real (`DocEnv.opening`), which touches neither
    pixels nor services but the store.
    """

    system: System
    config: Any
    services: EnvServices
    prompt: PromptTemplate | None = None

    def problem(self, sample: Sample, *, validate: bool) -> str | None:
        """Return why a question cannot be played; `None` when it can be."""
        try:
            self.opening(sample, validate=validate)
        except UserError as error:
            return str(error)
        return None

    def opening(self, sample: Sample, *, validate: bool) -> Observation | None:
        """Return the prompt of a trajectory, or `None` when only a service or a whole document
        could tell.

        Raises:
            UserError: the question cannot be played; the message names it.
        """
        if self.system.check_sample is not None:
            self.system.check_sample(sample, self.services.store, self.config, validate)
            return None
        prompt = self.system.load_prompt(self.config) if self.prompt is None else self.prompt
        env = self.system.open(self.config, self.services, prompt, validate=validate)
        return env.opening(sample) if type(env).prepare is DocEnv.prepare else None


def recipe_playability(parsed: DocAgentConfig, store: DocumentStore) -> Playability:
    """Return the `Playability` of a configuration; no index is needed, since nothing is searched.

    Raises:
        UserError: the system, its configuration or its prompt is unusable.
    """
    system = get_system(parsed.system)
    env = system.parse_config(parsed.env)
    unasked = RetrieverService(_Unasked())
    services = EnvServices(store, unasked, RuleJudge(), text_retriever=unasked)
    return Playability(system, env, services, system.load_prompt(env, parsed.prompt))


class _Unasked:
    """A retriever for trajectories that are begun and not played."""

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        raise UserError(
            "an opening that searches needs System.check_sample to tell what can be played"
        )


def listed(problems: Sequence[str], most: int = 10) -> str:
    """Join problems under each other, the first ones."""
    more = len(problems) - most
    return "\n  ".join([*problems[:most], *([f"and {more} more"] if more > 0 else [])])


@dataclass(frozen=True, slots=True)
class Unplayable:
    """A question that cannot be played, with the reason in one sentence."""

    question_id: str
    doc_id: str
    reason: str


@dataclass(slots=True)
class Openings:
    """The findings about the questions of a file.

    `longest` are tokens of the longest prompt that fits, `adapted` documents whose prompts had to
    be changed to fit, by how.
    """

    questions: int = 0
    longest: int = 0
    unplayable: list[Unplayable] = field(default_factory=list)
    adapted: dict[str, set[str]] = field(default_factory=dict)


def open_all(
    samples: Iterable[Sample], resources: TrajectoryResources, *, limit: int, validate: bool
) -> Openings:
    """Make the prompt of every question, as a trajectory would, and count its tokens."""
    found = Openings()
    for sample in samples:
        found.questions += 1
        env = resources.open(validate=validate, ask=_unasked)
        try:
            tokens = prompt_tokens(env.opening(sample), resources)
        except UserError as error:
            found.unplayable.append(Unplayable(sample.question_id, sample.doc_id, str(error)))
            continue
        if tokens > limit:
            reason = f"its prompt has {tokens} tokens, data.max_prompt_length is {limit}"
            found.unplayable.append(Unplayable(sample.question_id, sample.doc_id, reason))
            continue
        found.longest = max(found.longest, tokens)
        if (how := env.adapted()) is not None:
            found.adapted.setdefault(how, set()).add(sample.doc_id)
    return found


async def _unasked(*_: Any) -> Sampled:
    """Stands in for the rollout server, which nobody asks before a trajectory begins."""
    raise UserError("an opening asks the policy: override DocEnv.opening")


def prompt_tokens(prompt: Observation, resources: TrajectoryResources) -> int:
    """Count the tokens of a prompt, those of its images included; nothing is drawn.

    Raises:
        UserError: it shows images, and the model takes none.
    """
    return len(resources.codec.prompt_ids(prompt, sized(prompt.images, resources.processor)))

"""Checks before a run whether a system can play its questions, by building their prompts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptTemplate
from docagent_rl.config import DocAgentConfig
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.base import DocEnv, Observation
from docagent_rl.envs.images import ImageSheet, undrawn
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
    """A check whether a system can start a trajectory, by default with its own prompt.

    Systems whose prompt needs a service or a whole document define `System.check_sample`. For all
    others the prompt is really built (`DocEnv.opening`), which uses the store, but neither pixels
    nor other services.
    """

    system: System
    config: BaseModel
    services: EnvServices
    prompt: PromptTemplate | None = None

    def problem(self, sample: Sample, *, validate: bool) -> str | None:
        """Return why a question cannot be played; `None` if it can."""
        try:
            self.opening(sample, validate=validate)
        except UserError as error:
            return str(error)
        return None

    def opening(self, sample: Sample, *, validate: bool) -> Observation | None:
        """Return the prompt of a trajectory, or `None` if it needs a service or a whole document.

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
    """Return the `Playability` for a configuration; it needs no index, since nothing is searched.

    Raises:
        UserError: the system, its configuration or its prompt is unusable.
    """
    system = get_system(parsed.system)
    env = system.parse_config(parsed.env)
    retriever = RetrieverService(_NoRetriever())
    services = EnvServices(store, retriever, RuleJudge(), text_retriever=retriever)
    return Playability(system, env, services, system.load_prompt(env, parsed.prompt))


class _NoRetriever:
    """A retriever for prompts that are built but not played; it must not be called."""

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        raise UserError(
            "the system searches to build its prompt: define System.check_sample for it"
        )


def listed(problems: Sequence[str], most: int = 10) -> str:
    """Join the first `most` problems, one per line, and say how many more there are."""
    lines = list(problems[:most])
    if len(problems) > most:
        lines.append(f"and {len(problems) - most} more")
    return "\n  ".join(lines)


@dataclass(frozen=True, slots=True)
class Unplayable:
    """A question that cannot be played, and the reason in one sentence."""

    question_id: str
    doc_id: str
    reason: str


@dataclass(slots=True)
class Openings:
    """The result of building the prompts of a file's questions.

    `longest` is the number of tokens of the longest prompt that fits. `adapted` maps each change
    that made a prompt fit to the documents that needed it. `undrawn` has the keys of thumbnails
    that the run will have to draw, by their longer side in pixels.
    """

    questions: int = 0
    longest: int = 0
    unplayable: list[Unplayable] = field(default_factory=list)
    adapted: dict[str, set[str]] = field(default_factory=dict)
    undrawn: dict[int, set[str]] = field(default_factory=dict)

    def add_undrawn(self, prompt: Observation, store: DocumentStore) -> None:
        """Add the thumbnails of a prompt that no ingest and no run has drawn yet."""
        for image in prompt.images:
            if isinstance(image, ImageSheet):
                for piece in undrawn(image, store):
                    self.undrawn.setdefault(max(piece.size), set()).add(piece.key)


def open_all(
    samples: Iterable[Sample], resources: TrajectoryResources, *, limit: int, validate: bool
) -> Openings:
    """Build the prompt of every question, as a trajectory would, and count its tokens."""
    found = Openings()
    for sample in samples:
        found.questions += 1
        env = resources.open(validate=validate, ask=_no_server)
        try:
            prompt = env.opening(sample)
            tokens = prompt_tokens(prompt, resources)
        except UserError as error:
            found.unplayable.append(Unplayable(sample.question_id, sample.doc_id, str(error)))
            continue
        if tokens > limit:
            reason = f"its prompt has {tokens} tokens, data.max_prompt_length is {limit}"
            found.unplayable.append(Unplayable(sample.question_id, sample.doc_id, reason))
            continue
        found.longest = max(found.longest, tokens)
        found.add_undrawn(prompt, resources.services.store)
        if (how := env.adapted()) is not None:
            found.adapted.setdefault(how, set()).add(sample.doc_id)
    return found


async def _no_server(*_: Any) -> Sampled:
    """Replace the rollout server, which must not be called before a trajectory starts."""
    raise UserError("the system asks the policy to build its prompt: override DocEnv.opening")


def prompt_tokens(prompt: Observation, resources: TrajectoryResources) -> int:
    """Count the tokens of a prompt, including those of its images, without rendering any image.

    Raises:
        UserError: the prompt shows images, but the model accepts none.
    """
    return len(resources.codec.prompt_ids(prompt, sized(prompt.images, resources.processor)))

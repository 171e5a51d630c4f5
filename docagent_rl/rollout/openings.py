"""Which questions can be played at all: their prompts, made and counted before a run.

Nothing is drawn and no service is asked: an environment knows the sizes of what it shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import Observation
from docagent_rl.rollout.image_tokens import sized
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Sampled
from docagent_rl.samples.sample import Sample


@dataclass(frozen=True, slots=True)
class Unplayable:
    """A question that cannot be played.

    Args:
        question_id: the question.
        doc_id: its document.
        reason: one sentence.
    """

    question_id: str
    doc_id: str
    reason: str


@dataclass(slots=True)
class Openings:
    """What was found about the questions of a file.

    Args:
        questions: how many there are.
        longest: tokens of the longest prompt that fits.
        unplayable: questions that cannot be played.
        adapted: documents whose prompts had to be changed to fit, by how.
    """

    questions: int = 0
    longest: int = 0
    unplayable: list[Unplayable] = field(default_factory=list)
    adapted: dict[str, set[str]] = field(default_factory=dict)


def open_all(
    samples: Iterable[Sample], resources: TrajectoryResources, *, limit: int, validate: bool
) -> Openings:
    """Make the prompt of every question, as a trajectory would, and count its tokens.

    Args:
        samples: what is asked.
        resources: what trajectories share.
        limit: tokens of a prompt at most (`data.max_prompt_length`).
        validate: they belong to a validation.
    """
    found = Openings()
    for sample in samples:
        found.questions += 1
        env = resources.environment(validate=validate, ask=_unasked)
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
    """Stands in for the rollout server, which nobody asks before an trajectory begins."""
    raise UserError("an opening asks the policy: override DocEnv.opening")


def prompt_tokens(prompt: Observation, resources: TrajectoryResources) -> int:
    """Tokens of a prompt, those of its images included; nothing is drawn.

    Raises:
        UserError: it shows images, and the model takes none.
    """
    return len(resources.codec.prompt_ids(prompt, sized(prompt.images, resources.processor)))

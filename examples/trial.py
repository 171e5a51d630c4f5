"""Make trajectories in a recipe's environment without a trainer, by a model or by a script."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch.nn.utils.rnn import pad_sequence

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.envs.base import DocEnv
from docagent_rl.lab.sft.ledgers import turn_ids
from docagent_rl.rollout.chat import ChatCodec, template_kwargs
from docagent_rl.rollout.images import EncodedImage, ImageEncoder, join_features
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Limits, Rollout, Sampled
from docagent_rl.rollout.trajectory import Status, Trajectory
from docagent_rl.samples.sample import Sample

if TYPE_CHECKING:
    from omegaconf import DictConfig

T = TypeVar("T")

_trajectory_number: ContextVar[int] = ContextVar("trajectory_number")
"""The number of the trajectory that makes a request; requests are sorted by it, so that draws do
not depend on the order in which requests arrive.
"""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The parameters with which tokens are drawn."""

    temperature: float = 1.0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of a recipe that matter for making trajectories.

    Args:
        config: the recipe's section `docagent`.
        limits: its token budgets.
        sampling: how its tokens are drawn.
        template: arguments of its chat template.
    """

    config: DocAgentConfig
    limits: Limits
    sampling: Sampling
    template: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, recipe: DictConfig) -> Setting:
        """Read the settings from a composed recipe.

        Raises:
            UserError: the section `docagent` is invalid.
        """
        config = DocAgentConfig.parse(plain_section(recipe.docagent))
        rollout = recipe.actor_rollout_ref.rollout
        turns = config.rollout
        limits = Limits(
            prompt=recipe.data.max_prompt_length,
            response=recipe.data.max_response_length,
            turn=turns.turn_tokens,
            min_turn=turns.min_turn_tokens,
        )
        return cls(
            config, limits, Sampling(rollout.temperature, rollout.top_p), template_kwargs(recipe)
        )


def play_trial(
    setting: Setting,
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    *,
    trajectories: int = 4,
    together: int = 32,
    seed: int = 0,
) -> list[Trajectory]:
    """Sample `trajectories` trajectories of every question.

    Args:
        setting: the recipe's settings.
        model: a Qwen2.5-VL of transformers.
        processor: the model's processor.
        samples: the questions.
        trajectories: the number of trajectories of each question.
        together: the number of trajectories that run concurrently.
        seed: the seed of all draws.

    Returns:
        The trajectories, grouped by question. Trajectories of a question that cannot be played,
        or in which a service failed, are masked, as in a run.
    """
    resources = TrajectoryResources(
        setting.config, processor.tokenizer, processor, setting.template, running=False
    )
    stop_ids = [resources.codec.end_of_turn_id, *sorted(resources.codec.control_ids)]
    sampler = BatchSampler(
        model.eval(), processor, stop_ids=stop_ids, sampling=setting.sampling, seed=seed
    )
    # the number of the question, and that of the trajectory in its group
    plan = list(itertools.product(range(len(samples)), range(trajectories)))

    async def run() -> list[Trajectory]:
        played: list[Trajectory] = []
        for start in range(0, len(plan), together):
            some = plan[start : start + together]
            played += await sampler.together(
                _play(resources, sampler, setting.limits, samples[question], question, number)
                for question, number in some
            )
        return played

    return asyncio.run(run())


async def _play(
    resources: TrajectoryResources,
    sampler: BatchSampler,
    limits: Limits,
    sample: Sample,
    question: int,
    number: int,
) -> Trajectory:
    """Play a question, given by its number, as trajectory `number` of its group."""
    trajectory = Trajectory(
        uid=str(question),
        number=number,
        step=0,
        split="train",
        sample=sample.to_dict(),
        system=resources.system.name,
    )
    env = resources.environment(validate=False)
    try:
        rollout = Rollout(
            env, resources.codec, resources.encoder, sampler.generate, limits, trajectory
        )
        await rollout.play(sample)
    except (InfrastructureError, UserError) as error:
        trajectory.status = Status.MASKED.value
        trajectory.error = str(error)
    return trajectory


WriteTurn = Callable[[Trajectory], str]
"""A function of the trajectory so far that returns the text of the next turn, without its end."""


class ScriptedTrajectory(NamedTuple):
    """A trajectory, and its token ledgers, one for each training row."""

    trajectory: Trajectory
    ledgers: list[TurnLedger]


async def play_scripted(
    sample: Sample,
    write: WriteTurn,
    *,
    env: DocEnv,
    system: str,
    codec: ChatCodec,
    encoder: ImageEncoder | None,
    limits: Limits,
    number: int = 0,
) -> ScriptedTrajectory:
    """Make one trajectory in a fresh environment with a script instead of the policy.

    Everything but the sampling is as in a rollout: environment, chat template, images, ledger,
    limits. A turn is the script's text, encoded, and the end-of-turn token. A text-only model has
    no `encoder`.

    Raises:
        UserError: the question cannot be played, or a turn is empty, contains a special token or is
            longer than a policy could sample.
        InfrastructureError: a service failed.
    """
    trajectory = replace(new_trajectory(sample, number, system), split="train")

    async def generate(ids: list[int], images: list[EncodedImage], most: int) -> Sampled:
        written = turn_ids(write(trajectory), codec, sample.question_id)
        if len(written) > most:
            raise UserError(
                f"question {sample.question_id}: a scripted turn has {len(written)} tokens, but "
                f"{most} are allowed; shorten it or raise docagent.rollout.turn_tokens and "
                "data.max_response_length"
            )
        return Sampled(written)

    rollout = Rollout(env, codec, encoder, generate, limits, trajectory)
    return ScriptedTrajectory(trajectory, await rollout.play(sample))


@dataclass(slots=True)
class _Request:
    """A turn to sample.

    Args:
        number: the number of the trajectory.
        ids: the token ids so far.
        images: the images in them.
        most: the maximum number of tokens to sample.
        reply: the future that gets the sampled turn.
    """

    number: int
    ids: list[int]
    images: list[EncodedImage]
    most: int
    reply: asyncio.Future[Sampled]


class BatchSampler:
    """A rollout server in this process that samples the turns of all trajectories together.

    It waits until every running trajectory has requested a turn.

    Args:
        model: a Qwen2.5-VL of transformers in evaluation mode.
        processor: the model's processor.
        stop_ids: ids that end a turn.
        sampling: how tokens are drawn.
        batch_size: the number of sequences in a batch.
        seed: the seed of all draws. The draws also depend on which trajectories run concurrently.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        *,
        stop_ids: Sequence[int],
        sampling: Sampling,
        batch_size: int = 16,
        seed: int = 0,
    ) -> None:
        self._model = model
        self._processor = processor
        self._stops = list(stop_ids)
        self._sampling = sampling
        self._batch_size = batch_size
        self._seed = seed
        self._waiting: list[_Request] = []
        self._playing = 0

    async def generate(self, ids: list[int], images: list[EncodedImage], most: int) -> Sampled:
        """Sample one turn (see `docagent_rl.rollout.rollout.Generate`).

        This works only for trajectories that run in `together`.
        """
        reply: asyncio.Future[Sampled] = asyncio.get_running_loop().create_future()
        self._waiting.append(
            _Request(_trajectory_number.get(), list(ids), list(images), most, reply)
        )
        await self._serve()
        return await reply

    async def together(self, trajectories: Iterable[Awaitable[T]]) -> list[T]:
        """Run trajectories concurrently, and return their results in order."""
        started = list(trajectories)
        self._playing += len(started)
        return list(await asyncio.gather(*(self._play(n, one) for n, one in enumerate(started))))

    async def _play(self, number: int, trajectory: Awaitable[T]) -> T:
        _trajectory_number.set(number)
        try:
            return await trajectory
        finally:
            self._playing -= 1
            await self._serve()

    async def _serve(self) -> None:
        """Sample all requests, if every trajectory that still runs has made one."""
        if not self._waiting or len(self._waiting) < self._playing:
            return
        # sorted by length, so that batches need little padding
        requests = sorted(self._waiting, key=lambda request: (len(request.ids), request.number))
        self._waiting = []
        for start in range(0, len(requests), self._batch_size):
            batch = requests[start : start + self._batch_size]
            replies = await asyncio.to_thread(self._sample, batch)
            for request, reply in zip(batch, replies, strict=True):
                request.reply.set_result(reply)

    @torch.no_grad()
    def _sample(self, batch: list[_Request]) -> list[Sampled]:
        pad = self._processor.tokenizer.pad_token_id
        rows = [torch.tensor(request.ids) for request in batch]
        ids = pad_sequence(rows, batch_first=True, padding_value=pad, padding_side="left")
        ones = [torch.ones_like(row) for row in rows]
        mask = pad_sequence(ones, batch_first=True, padding_value=0, padding_side="left")
        vision = join_features([image for request in batch for image in request.images])
        self._seed += 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            sampled = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                mm_token_type_ids=(ids == self._processor.image_token_id).long(),
                do_sample=True,
                temperature=self._sampling.temperature,
                top_p=self._sampling.top_p,
                top_k=0,
                max_new_tokens=max(request.most for request in batch),
                eos_token_id=self._stops,
                pad_token_id=pad,
                **vision,
            )
        new = sampled[:, ids.shape[1] :].tolist()
        return [self._cut(row, request.most) for row, request in zip(new, batch, strict=True)]

    def _cut(self, ids: list[int], most: int) -> Sampled:
        """Return at most `most` ids, up to and including the first one that ends a turn.

        The sequences of a batch are as long as the longest of them.
        """
        end = len(ids)
        for position, token in enumerate(ids):
            if token in self._stops:
                end = position + 1
                break
        return Sampled(ids[: min(end, most)])

"""The agent loop that verl runs for every trajectory (`agent_name: docagent`)."""

import asyncio
import json
import logging
from contextvars import ContextVar
from typing import Any, ClassVar

import ray.exceptions
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, DictConfigWrap

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.text import traceback_text
from docagent_rl.rewards.custom.function import RewardFunctionError
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.resources import TrajectoryResources, resources_of
from docagent_rl.rollout.rollout import Generate, Limits, Rollout, Sampled
from docagent_rl.rollout.trajectory import MaskReason, Status, Trajectory
from docagent_rl.samples.sample import Sample
from docagent_rl.training.agent_loop.output import (
    VALIDATION,
    DocAgentLoopOutput,
    masked_row,
    training_rows,
)
from docagent_rl.training.agent_loop.playing import replays
from docagent_rl.training.agent_loop.resources import WorkerResources
from docagent_rl.training.serving.requests import LOADS, Served, for_server, route, servers_of
from docagent_rl.training.serving.trajectory_client import TrajectoryClient

logger = logging.getLogger(__name__)

_OF_THE_RUN = ("EngineDeadError:", "ActorDiedError:", "ActorUnavailableError:", "OwnerDiedError:")
"""Prefixes of reasons that mean that a part of the run died, which the driver reports."""

validating: ContextVar[bool] = ContextVar("docagent_validating", default=False)
"""True if the trajectory belongs to a validation, which verl does not pass to the loop."""

own_resources: ContextVar[WorkerResources | None] = ContextVar(
    "docagent_worker_resources", default=None
)
"""The resources of the agent worker that plays the trajectory."""


class DocAgentLoop(AgentLoopBase):
    """The agent loop of one trajectory of the configured system.

    A trajectory that fails for infrastructure reasons is restarted, and masked if it fails again:
    its row is excluded from the loss and from statistics, and counted. A sample that cannot be
    played, and a trajectory on which the user's reward function fails, are masked at once. Any
    other exception is a bug and ends the run. verl would only log it and train on the group's other
    trajectories, so the exception is passed to the trainer in a row instead (`trainer.accounts`).
    """

    _discards_samples: ClassVar[bool] = False
    """Whether turns have another text than the one that the server samples."""

    def __init__(
        self,
        trainer_config: DictConfigWrap,
        server_manager: Any,
        tokenizer: Any,
        processor: Any,
        **_: Any,
    ) -> None:
        # super().__init__() is not called: for every trajectory it would set up verl's own
        # tokenisation, which is not used here
        self.config = trainer_config.config
        self.rollout_config = self.config.actor_rollout_ref.rollout
        self.server_manager = server_manager
        self.tokenizer = tokenizer
        self.processor = processor
        self._versions: list[int] = []

    # verl's workers accept a list of rows, which the annotation of its base class does not allow
    async def run(  # ty: ignore[incompatible-method-override]
        self, sampling_params: dict[str, Any], **kwargs: Any
    ) -> list[DocAgentLoopOutput]:
        """Play a trajectory and return its training rows.

        `kwargs` contains the data set's column `sample` and verl's `uid`, `session_id` and
        `global_steps`.
        """
        started: list[Trajectory] = []
        try:
            return await self._trajectories(sampling_params, kwargs, started)
        except Exception as error:  # any exception: verl would only log it
            return [self._failure(error, started, kwargs)]
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # not this task was cancelled, but one that the trajectory was waiting for
            return [self._failure(error, started, kwargs)]

    async def _trajectories(
        self, sampling_params: dict[str, Any], kwargs: dict[str, Any], started: list[Trajectory]
    ) -> list[DocAgentLoopOutput]:
        """Play, and retry if a service fails; append the trajectory of each attempt to
        `started`.
        """
        here = own_resources.get() or WorkerResources()
        resources = await resources_of(self.config, self.tokenizer, self.processor, here.images)
        here.encoder = resources.encoder
        sample = Sample.from_json(kwargs["sample"])
        attempts = resources.config.rollout.trajectory_attempts
        for attempt in range(1, attempts + 1):
            trajectory = _new_trajectory(kwargs, sample.to_dict(), resources.system.name, attempt)
            started.append(trajectory)
            try:
                ledgers = await self._play(resources, sample, trajectory, sampling_params)
            except RewardFunctionError as error:
                trajectory.end = MaskReason.INFRASTRUCTURE.value
                trajectory.error = str(error)
                break
            except (InfrastructureError, ray.exceptions.RayError, OSError, TimeoutError) as error:
                trajectory.end = "infrastructure"
                trajectory.error = failure_reason(error)
            except UserError as error:
                trajectory.end = "sample"
                trajectory.error = str(error)
                break
            else:
                if any(ledger.sampled for ledger in ledgers):
                    versions = self._versions or [int(kwargs["global_steps"])]
                    return await asyncio.to_thread(
                        training_rows,
                        ledgers,
                        trajectory,
                        log_probs=bool(self.rollout_config.calculate_log_probs),
                        steps=(min(versions), max(versions)),
                        texts=resources.config.advantage.text,
                    )
                trajectory.end = "empty"
                trajectory.error = "the policy sampled no token of its own"
                break
            _log(
                logging.WARNING,
                trajectory,
                f"{sample.question_id}, attempt {attempt} of {attempts}: {trajectory.error}",
            )
        return [self._masked_row(resources.codec.end_of_turn_id, trajectory, kwargs)]

    async def _play(
        self,
        resources: TrajectoryResources,
        sample: Sample,
        trajectory: Trajectory,
        sampling_params: dict[str, Any],
    ) -> list[TurnLedger]:
        config = resources.config.rollout
        codec = resources.codec
        stops = [codec.end_of_turn_id, *sorted(codec.control_ids)]
        client = TrajectoryClient(
            self.server_manager,
            self.rollout_config,
            trajectory,
            route=self._route(trajectory),
            sampling={**sampling_params, "stop_token_ids": stops},
            awaits_servers=(own_resources.get() or WorkerResources()).awaits_servers,
        )

        async def ask_role(ids: list[int], changes: dict[str, Any]) -> Sampled:
            return Sampled((await client.reply(ids, changes)).token_ids)

        self._versions.clear()
        rollout = Rollout(
            env=resources.open(
                validate=validating.get(), ask=ask_role, context=self.rollout_config.max_model_len
            ),
            codec=codec,
            encoder=resources.encoder,
            generate=self._sampler(resources, sample, trajectory, client),
            limits=Limits(
                prompt=self.rollout_config.prompt_length,
                response=self.rollout_config.response_length,
                turn=config.turn_tokens,
                min_turn=config.min_turn_tokens,
            ),
            trajectory=trajectory,
        )
        try:
            return await rollout.play(sample)
        finally:
            client.close()

    def _sampler(
        self,
        resources: TrajectoryResources,
        sample: Sample,
        trajectory: Trajectory,
        client: TrajectoryClient,
    ) -> Generate:
        """Return the function that samples a trajectory's turns on a rollout server."""
        sent = set[str]()

        async def generate(ids: list[int], images: list[EncodedImage], max_tokens: int) -> Sampled:
            # the server preprocesses images without a handle; count each once per trajectory
            new = {image.key for image in images if image.handle is None} - sent
            sent.update(new)
            trajectory.image_preprocessings += len(new)
            limits = self._limits(max_tokens)
            output = await client.turn(
                ids, for_server(images), limits, discarded=self._discards_samples
            )
            _note_load(client.load)
            fields = output.extra_fields
            trajectory.image_loads += int(fields.get(LOADS) or 0)
            versions = fields.get("min_global_steps"), fields.get("max_global_steps")
            self._versions += [version for version in versions if version is not None]
            return Sampled(output.token_ids, output.log_probs or ())

        return generate

    def _limits(self, max_tokens: int) -> dict[str, Any]:
        """Return the parameters of sampling that bound a turn."""
        return {"max_tokens": max_tokens}

    def _route(self, trajectory: Trajectory) -> str:
        """Return the name by which the load balancer chooses the trajectory's server."""
        if self.rollout_config.get("full_determinism", False):
            # vLLM then uses the name as the request's id, so each trajectory needs its own
            return f"{trajectory.uid}-{trajectory.number}"
        validates = validating.get()
        return route(
            trajectory.uid,
            trajectory.number,
            trajectories=int(
                self.rollout_config.val_kwargs.n if validates else self.rollout_config.n
            ),
            prompts=int(self.config.data.train_batch_size),
            servers=servers_of(self.config),
        )

    def _failure(
        self, error: BaseException, started: list[Trajectory], kwargs: dict[str, Any]
    ) -> DocAgentLoopOutput:
        """Return a row with the error, and with the part of the trajectory that was played."""
        if started:
            trajectory = started[-1]
        else:  # the sample itself may be the cause
            try:
                sample = json.loads(kwargs.get("sample", ""))
            except (TypeError, ValueError):
                sample = None
            trajectory = _new_trajectory(kwargs, sample if isinstance(sample, dict) else {}, "")
        trajectory.end = MaskReason.FAILED.value
        trajectory.error = traceback_text(error)
        return self._masked_row(
            getattr(self.tokenizer, "eos_token_id", None) or 0, trajectory, kwargs
        )

    def _masked_row(
        self, filler: int, trajectory: Trajectory, kwargs: dict[str, Any]
    ) -> DocAgentLoopOutput:
        trajectory.status = Status.MASKED.value
        trajectory.reward = 0.0
        question = trajectory.sample.get("question_id")
        text = f"trajectory of {question} is masked ({trajectory.end}): {trajectory.error}"
        _log(logging.ERROR, trajectory, text)
        return masked_row(
            [filler],
            filler,
            trajectory,
            log_probs=bool(self.rollout_config.calculate_log_probs),
            step=int(kwargs["global_steps"]),
        )


def _note_load(load: Served) -> None:
    here = own_resources.get()
    if here is not None:
        here.gauges.note("cache_playing", load.playing)
        here.gauges.note("cache_waiting", load.waiting)


def failure_reason(error: BaseException) -> str:
    """Return the type and message of a service's error, without another process's traceback.

    Ray's errors contain the task's traceback, and some of them also ids.
    """
    cause = error
    if isinstance(error, ray.exceptions.RayTaskError):
        cause = error.cause if isinstance(error.cause, BaseException) else error
    text = str(cause).strip()
    if isinstance(cause, ray.exceptions.RayError):
        text = text.partition("\n")[0]
    return f"{type(cause).__name__}: {text}"


_logged: set[str] = set()
"""Reasons in this worker, due to a part of the run that died, that have been logged."""


def _log(level: int, trajectory: Trajectory, text: str) -> None:
    """Log a line about a trajectory; if a part of the run died, log it only for the first one.

    When an engine dies, all of its trajectories fail at every attempt, and the driver reports it.
    """
    reason = trajectory.error or ""
    if reason.startswith(_OF_THE_RUN):
        if reason in _logged:
            level = logging.DEBUG
        _logged.add(reason)
    logger.log(level, text)


def _new_trajectory(
    kwargs: dict[str, Any], sample: dict[str, Any], system: str, attempt: int = 1
) -> Trajectory:
    return Trajectory(
        uid=str(kwargs.get("uid", "")),
        number=int(kwargs.get("session_id", 0)),
        step=int(kwargs.get("global_steps", 0)),
        split=VALIDATION if validating.get() else "train",
        sample=sample,
        system=system,
        attempts=attempt,
        replays=replays.get(),
    )

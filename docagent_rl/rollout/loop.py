"""The agent loop that verl runs for every session (`agent_name: docagent`)."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

import ray.exceptions
from omegaconf import OmegaConf
from PIL.Image import Image
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, DictConfigWrap

from docagent_rl.config import DocAgentConfig
from docagent_rl.data.record import Record
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.output import DocAgentLoopOutput, masked_row, training_rows
from docagent_rl.rollout.session import Limits, Sampled, Session
from docagent_rl.rollout.trajectory import Status, Trajectory
from docagent_rl.rollout.workshop import Workshop, workshop

logger = logging.getLogger(__name__)

validating: ContextVar[bool] = ContextVar("docagent_validating", default=False)
"""Whether the session belongs to a validation; verl does not tell the loop."""


class DocAgentLoop(AgentLoopBase):
    """Plays one session of the configured system.

    A session that fails for infrastructure reasons is started again, then masked: its row carries no loss,
    enters no statistics and is counted. A sample that cannot be played is masked at once. Any other
    exception is a bug and ends the run.
    """

    def __init__(
        self,
        trainer_config: DictConfigWrap,
        server_manager: Any,
        tokenizer: Any,
        processor: Any,
        **_: Any,
    ) -> None:
        # not super().__init__(): it builds verl's own tokenisation for every session anew, unused here
        self.config = trainer_config.config
        self.rollout_config = self.config.actor_rollout_ref.rollout
        self.server_manager = server_manager
        self.tokenizer = tokenizer
        self.processor = processor
        self._versions: list[int] = []

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[DocAgentLoopOutput]:
        """Play a session; its training rows.

        Args:
            sampling_params: sampling parameters of the rollout.
            kwargs: columns of the data set (`record`) and verl's bookkeeping (`uid`, `session_id`,
                `global_steps`).
        """
        shop = self._workshop()
        sample = Record.from_json(kwargs["record"])
        attempts = shop.config.rollout.session_attempts
        for attempt in range(1, attempts + 1):
            trajectory = self._trajectory(shop, sample, attempt, kwargs)
            try:
                ledgers = await self._play(shop, sample, trajectory, sampling_params)
            except (InfrastructureError, ray.exceptions.RayError, OSError, TimeoutError) as error:
                trajectory.end, trajectory.error = "infrastructure", f"{type(error).__name__}: {error}"
            except UserError as error:
                trajectory.end, trajectory.error = "sample", str(error)
                break
            else:
                if any(ledger.sampled for ledger in ledgers):
                    return self._rows(ledgers, trajectory, kwargs)
                trajectory.end, trajectory.error = "empty", "the policy sampled no token of its own"
                break
            logger.warning(
                "%s, attempt %d of %d: %s", sample.question_id, attempt, attempts, trajectory.error
            )
        return [self._mask(shop, trajectory, kwargs)]

    def _workshop(self) -> Workshop:
        section = OmegaConf.to_container(self.config.docagent, resolve=True)
        return workshop(DocAgentConfig.parse(section), self.tokenizer, self.processor)

    def _trajectory(self, shop: Workshop, sample: Record, attempt: int, kwargs: dict[str, Any]) -> Trajectory:
        return Trajectory(
            uid=str(kwargs["uid"]),
            session=int(kwargs["session_id"]),
            step=int(kwargs["global_steps"]),
            split="val" if validating.get() else "train",
            record=sample.to_dict(),
            system=shop.system.name,
            attempts=attempt,
        )

    async def _play(
        self, shop: Workshop, sample: Record, trajectory: Trajectory, sampling_params: dict[str, Any]
    ) -> list[TurnLedger]:
        rollout = shop.config.rollout
        session = Session(
            env=shop.environment(validate=validating.get()),
            codec=shop.codec,
            encoder=shop.encoder,
            generate=self._generator(shop, trajectory, sampling_params),
            limits=Limits(
                prompt=self.rollout_config.prompt_length,
                response=self.rollout_config.response_length,
                turn=rollout.turn_tokens,
                min_turn=rollout.min_turn_tokens,
            ),
            trajectory=trajectory,
        )
        self._versions.clear()
        return await session.play(sample)

    def _generator(self, shop: Workshop, trajectory: Trajectory, sampling_params: dict[str, Any]) -> Any:
        request_id = f"{trajectory.uid}-{trajectory.session}"
        stops = [shop.codec.end_of_turn_id, *sorted(shop.codec.control_ids)]

        async def generate(ids: list[int], images: list[Image], max_tokens: int) -> Sampled:
            output = await self.server_manager.generate(
                request_id=request_id,
                prompt_ids=ids,
                sampling_params={**sampling_params, "max_tokens": max_tokens, "stop_token_ids": stops},
                image_data=images or None,
            )
            fields = output.extra_fields
            self._versions += [
                v for v in (fields.get("min_global_steps"), fields.get("max_global_steps")) if v is not None
            ]
            return Sampled(output.token_ids, output.log_probs or ())

        return generate

    def _rows(
        self, ledgers: list[TurnLedger], trajectory: Trajectory, kwargs: dict[str, Any]
    ) -> list[DocAgentLoopOutput]:
        versions = self._versions or [int(kwargs["global_steps"])]
        return training_rows(
            ledgers,
            trajectory,
            log_probs=bool(self.rollout_config.calculate_log_probs),
            steps=(min(versions), max(versions)),
        )

    def _mask(self, shop: Workshop, trajectory: Trajectory, kwargs: dict[str, Any]) -> DocAgentLoopOutput:
        trajectory.status = Status.MASKED.value
        trajectory.reward = 0.0
        question = trajectory.record.get("question_id")
        logger.error("session of %s is masked (%s): %s", question, trajectory.end, trajectory.error)
        filler = shop.codec.end_of_turn_id
        return masked_row(
            [filler],
            filler,
            trajectory,
            log_probs=bool(self.rollout_config.calculate_log_probs),
            step=int(kwargs["global_steps"]),
        )

"""A role that the trained policy plays itself, on the rollout server of the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import ImagePart, Message, Observation
from docagent_rl.envs.roles import RoleConfig
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.rollout import Sampled, split_stop

Ask = Callable[[list[int], dict[str, Any]], Awaitable[Sampled]]
"""`(token ids, changes to the rollout's sampling parameters) -> Sampled`; stops as a turn does."""

_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class PolicyRole:
    """A `RoleModel` that asks the policy, with the weights of the moment. Its tokens are no training row.

    Args:
        name: of the role, for messages.
        config: its section; `temperature` and `max_tokens` hold, as for a model behind an endpoint.
        codec: of the policy.
        ask: the rollout server.
        context: tokens that the server takes, prompt and reply together.
    """

    name: str
    config: RoleConfig
    codec: ChatCodec
    ask: Ask
    context: int | None = None

    async def complete(self, messages: Sequence[Message]) -> str:
        """See `RoleModel`. A thought is left out; what is left may be empty, since a policy may say nothing.

        Raises:
            UserError: the conversation does not fit the server, or shows images.
        """
        if any(isinstance(part, ImagePart) for message in messages for part in message.parts):
            raise UserError(f"roles.{self.name}: the policy plays roles without images only")
        ids = self.codec.prompt_ids(Observation(tuple(messages)))
        if self.context is not None and len(ids) + self.config.max_tokens > self.context:
            raise UserError(
                f"roles.{self.name}: {len(ids)} tokens and a reply of up to {self.config.max_tokens} do not "
                f"fit actor_rollout_ref.rollout.max_model_len={self.context}"
            )
        greedy = {"temperature": self.config.temperature, "top_p": 1.0, "top_k": -1}
        sampled = await self.ask(ids, {**greedy, "max_tokens": self.config.max_tokens})
        kept, _, _ = split_stop(sampled, self.codec.end_of_turn_id, self.codec.control_ids)
        _, _, said = self.codec.decode(kept).rpartition(_THINK_CLOSE)
        return "" if _THINK_OPEN in said else said.strip()

    async def check(self) -> None:
        """See `RoleModel`: the policy is there when the run is."""

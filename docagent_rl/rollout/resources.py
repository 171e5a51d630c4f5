"""Resources that all trajectories of a process share: store, retriever, judge, images, prompt."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from omegaconf import DictConfig

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.documents.grid import ImageGrid
from docagent_rl.envs.base import DocEnv, ImagePart, Message, Observation
from docagent_rl.envs.images import render
from docagent_rl.envs.roles import RoleConfig
from docagent_rl.models import get_family
from docagent_rl.rollout.chat import ChatCodec, check_template, template_kwargs
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.images import CAPACITY, ImageEncoder, ImageSettings
from docagent_rl.rollout.rollout import Sampled, split_stop

logger = logging.getLogger(__name__)


class TrajectoryResources(EnvResources):
    """Shared, expensive resources that a process creates once.

    A text-only model has no `processor`. `template` contains arguments of the chat template
    (`data.apply_chat_template_kwargs`). Without `images`, images are cached as the configuration
    says for a process without a shared cache.
    """

    def __init__(
        self,
        config: DocAgentConfig,
        tokenizer: Any,
        processor: Any | None,
        template: Mapping[str, Any] = MappingProxyType({}),
        images: ImageSettings | None = None,
        *,
        running: bool = True,
    ) -> None:
        self.tokenizer = tokenizer
        self.processor = processor
        self.template = template
        self.codec = ChatCodec(tokenizer, processor, tuple(template.items()))
        super().__init__(config, self.codec.counter, running=running)
        check_template(self.codec)
        if self.codec.unused_kwargs:
            names = ", ".join(sorted(self.codec.unused_kwargs))
            logger.warning(
                "data.apply_chat_template_kwargs: the model's chat template does not use %s", names
            )
        self.encoder: ImageEncoder | None = None
        image_processor = getattr(processor, "image_processor", None)
        if image_processor is not None:
            display = config.env.get("display", {})
            grid = ImageGrid(**display["grid"]) if "grid" in display else None
            get_family(config.model_family).check_processor(image_processor, grid)
            store = self.services.store
            rollout = config.rollout
            capacity = rollout.image_cache_mb << 20 if rollout.image_cache_mb else CAPACITY
            settings = images or ImageSettings(capacity, rollout.image_threads)
            self.encoder = ImageEncoder(processor, lambda ref: render(ref, store), settings)

    def open(self, *, validate: bool, ask: Ask | None = None, context: int | None = None) -> DocEnv:
        """Open a new environment for one trajectory.

        `ask` calls the rollout server for roles that the policy plays; `context` is that server's
        maximum context length.

        Raises:
            UserError: the policy is to play a role, and there is no server.
        """
        if ask is None:
            return self.environment(validate=validate)
        played = self.policy_roles.items()
        roles = {name: PolicyRole(name, each, self.codec, ask, context) for name, each in played}
        return self.environment(validate=validate, roles=roles)


# keyed by identity, since parsing a composed configuration takes longer than a turn; the
# configuration itself is stored too, so that its id is not reused
_of_runs: dict[int, tuple[DictConfig, TrajectoryResources]] = {}
_lock = threading.Lock()


async def resources_of(
    run: DictConfig, tokenizer: Any, processor: Any | None, images: ImageSettings | None = None
) -> TrajectoryResources:
    """Return the resources of this process for a composed configuration, which must not change.

    The first trajectory creates them in a thread, where indexes are read and clients are imported.
    """
    if id(run) not in _of_runs:
        await asyncio.to_thread(_open, run, tokenizer, processor, images)
    return _of_runs[id(run)][1]


def _open(
    run: DictConfig, tokenizer: Any, processor: Any | None, images: ImageSettings | None
) -> None:
    with _lock:
        if id(run) not in _of_runs:
            config = DocAgentConfig.parse(plain_section(run.docagent))
            template = template_kwargs(run)
            _of_runs[id(run)] = (
                run,
                TrajectoryResources(config, tokenizer, processor, template, images),
            )


Ask = Callable[[list[int], dict[str, Any]], Awaitable[Sampled]]
"""`(token ids, changes to the rollout's sampling parameters) -> Sampled`; stops like a turn."""

_THINK_OPEN = "<think>"
_THINK_CLOSE = "</think>"


@dataclass(frozen=True, slots=True)
class PolicyRole:
    """A `RoleModel` that asks the policy with its current weights; its tokens are not trained on.

    `temperature` and `max_tokens` of its configuration apply, as for a model behind an endpoint.
    `context` is the server's maximum number of tokens, prompt and reply together.
    """

    name: str
    config: RoleConfig
    codec: ChatCodec
    ask: Ask
    context: int | None = None

    async def complete(self, messages: Sequence[Message]) -> str:
        """See `RoleModel`. Thoughts are removed; the rest may be empty, since it is a policy's
        text.

        Raises:
            UserError: the conversation does not fit the server's context, or shows images.
        """
        if any(isinstance(part, ImagePart) for message in messages for part in message.parts):
            raise UserError(f"roles.{self.name}: the policy only plays roles without images")
        ids = self.codec.prompt_ids(Observation(tuple(messages)))
        if self.context is not None and len(ids) + self.config.max_tokens > self.context:
            raise UserError(
                f"roles.{self.name}: {len(ids)} tokens and a reply of up to "
                f"{self.config.max_tokens} do not fit into "
                f"actor_rollout_ref.rollout.max_model_len={self.context}"
            )
        greedy = {"temperature": self.config.temperature, "top_p": 1.0, "top_k": -1}
        sampled = await self.ask(ids, {**greedy, "max_tokens": self.config.max_tokens})
        kept, _, _ = split_stop(sampled, self.codec.end_of_turn_id, self.codec.control_ids)
        _, _, said = self.codec.decode(kept).rpartition(_THINK_CLOSE)
        return "" if _THINK_OPEN in said else said.strip()

    async def check(self) -> None:
        """See `RoleModel`; there is nothing to check, since the run itself serves the policy."""

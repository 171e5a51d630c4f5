"""Whether a run freezes its vision tower, and whether it can; `frozen` does it.

Apart from that module, whose base class imports the rollout servers with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig

ACTOR_KEY = "actor_rollout_ref.actor.freeze_vision_tower"
CRITIC_KEY = "docagent.critic.freeze_vision_tower"
SFT_KEY = "docagent.freeze_vision_tower"
STRATEGIES = ("fsdp", "fsdp2")


def freezes_actor(run: DictConfig) -> bool:
    """Whether the policy's vision tower is frozen."""
    return bool(OmegaConf.select(run, ACTOR_KEY, default=False))


def freezes_critic(run: DictConfig, section: DocAgentConfig) -> bool:
    """Whether the critic's is: as the policy's, unless `docagent.critic` says otherwise."""
    own = section.critic.freeze_vision_tower
    return freezes_actor(run) if own is None else own


def check_frozen(run: DictConfig, section: DocAgentConfig) -> None:
    """Refuse settings under which the vision tower would not be frozen as asked.

    Raises:
        UserError: an engine other than FSDP, or activation offloading, which counts on a backward pass
            through every block.
    """
    for key, part, model in _frozen_parts(run, section):
        strategy = OmegaConf.select(run, f"{part}.strategy")
        if strategy not in STRATEGIES:
            raise UserError(f"{key}: {unsupported(strategy)}")
        if OmegaConf.select(run, f"{model}.enable_activation_offload", default=False):
            raise UserError(
                f"{key} is frozen, but {model}.enable_activation_offload is true, which counts on a "
                "backward pass through every block: switch one of the two off"
            )


def check_vision(run: DictConfig, section: DocAgentConfig) -> None:
    """Refuse to freeze the vision tower of a local model that has none.

    Raises:
        UserError: its configuration has no part for images.
    """
    for key, _, model in _frozen_parts(run, section):
        path = Path(str(OmegaConf.select(run, f"{model}.path"))).expanduser()
        if not (path / "config.json").is_file():
            continue
        from transformers import PretrainedConfig

        config, _ = PretrainedConfig.get_config_dict(path)
        if not any(name.startswith("vision") for name in config):
            raise UserError(f"{key}: {path} is a model without a vision tower: set it to false")


def _frozen_parts(run: DictConfig, section: DocAgentConfig) -> Iterator[tuple[str, str, str]]:
    """Key, section and section of the model of whatever is frozen."""
    if freezes_actor(run):
        yield ACTOR_KEY, "actor_rollout_ref.actor", "actor_rollout_ref.model"
    if OmegaConf.select(run, "critic.enable") and freezes_critic(run, section):
        yield CRITIC_KEY, "critic", "critic.model"


def unsupported(strategy: str | None) -> str:
    """What to say of an engine that cannot."""
    return f"the vision tower can be frozen under {' and '.join(STRATEGIES)}, not under strategy {strategy}"

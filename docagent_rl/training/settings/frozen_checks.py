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
    """Return whether the policy's vision tower is frozen."""
    return bool(OmegaConf.select(run, ACTOR_KEY, default=False))


def freezes_critic(run: DictConfig, section: DocAgentConfig) -> bool:
    """Return whether the critic's is: as the policy's, unless `docagent.critic` says otherwise."""
    own = section.critic.freeze_vision_tower
    return freezes_actor(run) if own is None else own


def check_frozen(run: DictConfig, section: DocAgentConfig) -> None:
    """Refuse settings under which the vision tower would not be frozen as asked.

    Raises:
        UserError: an engine other than FSDP, or activation offloading.
    """
    for key, part, model in _frozen_parts(run, section):
        strategy = OmegaConf.select(run, f"{part}.strategy")
        if problem := frozen_problem(key, strategy, model, run):
            raise UserError(problem)


def frozen_problem(key: str, strategy: str | None, model: str, run: DictConfig) -> str | None:
    """Return why `key` cannot freeze a tower under this strategy and the section `model` of a run."""
    if strategy not in STRATEGIES:
        return f"{key}: {unsupported(strategy)}"
    if OmegaConf.select(run, f"{model}.enable_activation_offload", default=False):
        return (
            f"{key}: {model}.enable_activation_offload counts on a backward pass through every block: switch "
            "one of the two off"
        )
    return None


def unsupported(strategy: str | None) -> str:
    """Say that an engine cannot freeze the tower."""
    return f"the vision tower can be frozen under {' and '.join(STRATEGIES)}, not under strategy {strategy}"


def check_vision(run: DictConfig, section: DocAgentConfig) -> None:
    """Refuse to freeze the vision tower of a local model that has none.

    Raises:
        UserError: its configuration has no part for images.
    """
    for key, _, model in _frozen_parts(run, section):
        if problem := vision_problem(key, Path(str(OmegaConf.select(run, f"{model}.path"))).expanduser()):
            raise UserError(problem)


def vision_problem(key: str, path: Path) -> str | None:
    """Return what is wrong if the model in a folder has no vision tower for `key` to freeze."""
    from transformers import PretrainedConfig

    if not (path / "config.json").is_file():
        return None
    config, _ = PretrainedConfig.get_config_dict(path)
    seeing = any(name.startswith("vision") for name in config)
    return None if seeing else f"{key}: {path} is a model without a vision tower: set it to false"


def _frozen_parts(run: DictConfig, section: DocAgentConfig) -> Iterator[tuple[str, str, str]]:
    """Key, section and section of the model of whatever is frozen."""
    if freezes_actor(run):
        yield ACTOR_KEY, "actor_rollout_ref.actor", "actor_rollout_ref.model"
    if OmegaConf.select(run, "critic.enable") and freezes_critic(run, section):
        yield CRITIC_KEY, "critic", "critic.model"

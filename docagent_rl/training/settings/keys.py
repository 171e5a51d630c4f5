"""Find unknown keys, unknown trackers and unknown trainer modes in a run's configuration."""

import difflib
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.text import did_you_mean
from docagent_rl.config import plain_section
from docagent_rl.training.settings.ledger import MODES, SFT_FILE, TRAINER_MODES, ledger
from docagent_rl.training.settings.trackers import access_problems
from docagent_rl.training.settings.verl_classes import verls_module

OPEN = ("ray_kwargs.ray_init", "docagent", "hydra", "model_engine")
"""Sections that are not checked here: `ray.init`, this package's, Hydra's, and the engine group."""
TRACKER_PACKAGES = frozenset({"clearml", "mlflow", "swanlab", "tensorboard", "trackio", "wandb"})
"""Trackers whose package has the same name."""


@cache
def reference() -> Mapping[str, Any]:
    """Return verl's trainer configuration with all keys; all callers get the same object.

    verl reads `reward_kwargs` (`get_custom_reward_fn`), but it is missing from verl's file.
    """
    found = _verl("_generated_ppo_trainer")
    found["reward"]["custom_reward_function"]["reward_kwargs"] = {}
    return found


@cache
def sft_reference() -> Mapping[str, Any]:
    """Return the configuration of verl's supervised trainer, with the key that our data set
    adds.
    """
    found = _verl("sft_trainer_engine")
    for entry in found.pop("defaults"):
        if isinstance(entry, Mapping):
            ((place, name),) = entry.items()
            group, _, key = place.partition("@")
            found[key] = _verl(f"{group}/{name}")
    found["data"]["store"] = None
    return found


def _verl(name: str) -> dict[str, Any]:
    spec = find_spec("verl")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("verl")
    path = Path(spec.origin).parent / "trainer" / "config" / f"{name}.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def key_problems(config: DictConfig) -> Iterator[str]:
    """Name each unknown key of a run, with the most similar known key.

    The known keys are those of verl's configuration, and those of its dataclasses in the ledger.
    """
    return _walk(plain_section(config, resolve=False), reference(), ledger().keys, "")


def sft_key_problems(config: DictConfig) -> Iterator[str]:
    """Name each unknown key of a supervised run, with the most similar known key."""
    return _walk(plain_section(config, resolve=False), sft_reference(), ledger(SFT_FILE).keys, "")


def _walk(
    config: Mapping[str, Any], known: Mapping[str, Any], named: Collection[str], prefix: str
) -> Iterator[str]:
    for key, value in config.items():
        path = f"{prefix}{key}"
        if path in OPEN:
            continue
        if key not in known and path not in named:
            added = [
                each.removeprefix(prefix)
                for each in named
                if each.rpartition(".")[0] == prefix[:-1]
            ]
            yield f"{path}: unknown key{did_you_mean(str(key), [*known, *added], prefix)}"
        elif isinstance(value, Mapping) and isinstance(known.get(key), Mapping) and known[key]:
            yield from _walk(value, known[key], named, f"{path}.")


def tracker_problems(config: DictConfig, *, installed: bool) -> Iterator[str]:
    """Name trackers that verl does not have; verl itself reports them after loading all models.

    With `installed`, also name trackers whose package, key or server is missing on this machine.
    """
    chosen = config.trainer.logger
    known = verls_module("verl.utils.tracking").Tracking.supported_backend
    for name in chosen if OmegaConf.is_list(chosen) else [chosen]:
        if name == "tracking":
            yield "trainer.logger: 'tracking' is verl's old name for wandb; use wandb"
        elif name not in known:
            meant = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {meant[0]}?" if meant else f"use one of {', '.join(known)}"
            yield f"trainer.logger: verl has no tracker {name!r}; {hint}"
        # a folder with the tracker's name, which wandb creates for its runs, has no origin
        elif (
            installed and name in TRACKER_PACKAGES and not getattr(find_spec(name), "origin", None)
        ):
            yield (f"trainer.logger: {name} is not installed: pip install {name}, or remove it")
    if installed:
        yield from access_problems(config)


def mode_problems(config: DictConfig) -> Iterator[str]:
    """Name a trainer mode that is not registered; the user's modules may have registered some."""
    trainers = sys.modules.get("verl.trainer.ppo.v1.trainer_base")
    known = dict.fromkeys((*TRAINER_MODES, *MODES, *getattr(trainers, "TRAINER_REGISTRY", ())))
    mode = OmegaConf.select(config, "trainer.v1.trainer_mode")
    if mode not in known:
        yield (
            f"trainer.v1.trainer_mode={mode} is not registered; the modes are {', '.join(known)}"
        )

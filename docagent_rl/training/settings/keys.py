"""Refuses keys that nobody reads, and values of verl's own keys that no run can have."""

import difflib
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from omegaconf import DictConfig, OmegaConf
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from docagent_rl.config import plain
from docagent_rl.training.plugin import TRAINER_MODES
from docagent_rl.training.settings.ledger import MODES, SFT_FILE, ledger
from docagent_rl.training.settings.trackers import access_problems

OPEN = ("ray_kwargs.ray_init", "docagent", "hydra", "model_engine")
"""Sections with rules of their own: `ray.init`, ours, Hydra's, and the name of the engine group."""
TRACKER_PACKAGES = frozenset({"clearml", "mlflow", "swanlab", "tensorboard", "trackio", "wandb"})
"""Trackers that are packages of the same name."""


@cache
def reference() -> Mapping[str, Any]:
    """Return verl's trainer configuration, every key of it; the same object for every caller.

    `reward_kwargs` is read by verl (`get_custom_reward_fn`), and missing in its file.
    """
    found = _verl("_generated_ppo_trainer")
    found["reward"]["custom_reward_function"]["reward_kwargs"] = {}
    return found


@cache
def sft_reference() -> Mapping[str, Any]:
    """Return the configuration of verl's supervised trainer, with the key that our data set reads."""
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
    """Name each key of a run that nobody knows, with the nearest known one.

    Known are the keys of verl's configuration, and those of its dataclasses that its ledger names.
    """
    return _walk(plain(config, resolve=False), reference(), ledger().keys, "")


def sft_key_problems(config: DictConfig) -> Iterator[str]:
    """Name each key of a supervised run that nobody knows, with the nearest known one."""
    return _walk(plain(config, resolve=False), sft_reference(), ledger(SFT_FILE).keys, "")


def _walk(
    config: Mapping[str, Any], known: Mapping[str, Any], named: Collection[str], prefix: str
) -> Iterator[str]:
    for key, value in config.items():
        path = f"{prefix}{key}"
        if path in OPEN:
            continue
        if key not in known and path not in named:
            added = [each.removeprefix(prefix) for each in named if each.rpartition(".")[0] == prefix[:-1]]
            near = difflib.get_close_matches(str(key), [*known, *added], n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            yield f"{path}: unknown key{hint}"
        elif isinstance(value, Mapping) and isinstance(known.get(key), Mapping) and known[key]:
            yield from _walk(value, known[key], named, f"{path}.")


LEAST_PROMPT = 16
"""Tokens: the frame of a chat alone, without any system prompt or question, takes about as many."""

ROLLOUT, ACTOR, REF = (f"actor_rollout_ref.{part}" for part in ("rollout", "actor", "ref"))


def _paths(value: Any) -> Any:
    paths = value if isinstance(value, list) else [value]
    if not paths or not all(isinstance(path, str) and path.strip() for path in paths):
        raise ValueError("the path of a file, or a list of such paths")
    return value


Bool = Annotated[bool, Field(strict=True)]
Natural = Annotated[int, Field(strict=True, ge=0)]
Count = Annotated[int, Field(strict=True, ge=1)]
OptionalCount = Count | None
Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
PositiveAmount = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Fraction = Annotated[Amount, Field(le=1)]
PositiveFraction = Annotated[PositiveAmount, Field(le=1)]
Interval = Count | Literal[-1, 0]
"""Steps between two events; -1 and 0: never."""
Resume = Literal["auto", "disable", "resume_path"]
_Files = Annotated[Any, BeforeValidator(_paths)]
_Samples = Count | Literal[-1] | None


def typed(*groups: tuple[Any, str, str]) -> Mapping[str, Any]:
    """Return types by key, of triples of a type, a section and the names in it."""
    return {f"{section}.{name}": kind for kind, section, names in groups for name in names.split()}


VALUES = typed(
    (_Files, "data", "train_files val_files"),
    (Count, "data", "train_batch_size"),
    (OptionalCount, "data", "gen_batch_size val_batch_size"),
    (Annotated[Count, Field(ge=LEAST_PROMPT)], "data", "max_prompt_length"),
    (Annotated[Count, Field(ge=2)], "data", "max_response_length"),
    (_Samples, "data", "train_max_samples val_max_samples"),
    (Natural, "data", "dataloader_num_workers"),
    (Bool, "data", "shuffle"),
    (Count, ROLLOUT, "n val_kwargs.n max_num_seqs agent.num_workers"),
    (Count, ROLLOUT, "tensor_model_parallel_size data_parallel_size pipeline_model_parallel_size"),
    (Count, ROLLOUT, "checkpoint_engine.update_weights_bucket_megabytes"),
    (OptionalCount, ROLLOUT, "max_num_batched_tokens"),
    (OptionalCount, ROLLOUT, "log_prob_micro_batch_size log_prob_micro_batch_size_per_gpu"),
    (PositiveAmount, ROLLOUT, "temperature"),
    (Amount, ROLLOUT, "val_kwargs.temperature"),
    (PositiveFraction, ROLLOUT, "top_p val_kwargs.top_p gpu_memory_utilization"),
    (Interval, ROLLOUT, "top_k val_kwargs.top_k"),
    (Annotated[Count, Field(ge=LEAST_PROMPT + 2)] | None, ROLLOUT, "max_model_len"),
    (OptionalCount, REF, "log_prob_micro_batch_size log_prob_micro_batch_size_per_gpu"),
    (Count, ACTOR, "ppo_mini_batch_size ppo_max_token_len_per_gpu ppo_epochs ulysses_sequence_parallel_size"),
    (OptionalCount, ACTOR, "ppo_micro_batch_size ppo_micro_batch_size_per_gpu"),
    (Amount, ACTOR, "clip_ratio clip_ratio_low clip_ratio_high kl_loss_coef optim.lr optim.weight_decay"),
    (Annotated[PositiveAmount, Field(gt=1)], ACTOR, "clip_ratio_c"),
    (PositiveAmount, ACTOR, "optim.clip_grad"),
    (Fraction, "algorithm", "gamma lam"),
    (Count, "trainer", "nnodes n_gpus_per_node total_epochs"),
    (OptionalCount, "trainer", "total_training_steps max_actor_ckpt_to_keep max_critic_ckpt_to_keep"),
    (Interval, "trainer", "save_freq test_freq"),
    (Natural, "trainer", "critic_warmup"),
    (Bool, "trainer", "val_before_train"),
    (Resume, "trainer", "resume_mode"),
    (Count, "reward", "num_workers"),
    (Count, "transfer_queue.backend.SimpleStorage", "num_data_storage_units"),
)
"""The type of each key's value."""

CRITIC_VALUES = typed(
    (Count, "critic", "ppo_mini_batch_size ppo_epochs"),
    (OptionalCount, "critic", "ppo_micro_batch_size ppo_micro_batch_size_per_gpu"),
    (OptionalCount, "critic", "forward_micro_batch_size_per_gpu"),
    (Amount, "critic", "cliprange_value optim.lr"),
)
"""The types of a critic's, where there is one."""


def run_value_problems(config: DictConfig) -> Iterator[str]:
    """Name each value that no run can have.

    verl meets most of them minutes after Ray has started, in whichever process reads them first.
    """
    yield from value_problems(config, VALUES)
    if OmegaConf.select(config, "critic.enable"):
        yield from value_problems(config, CRITIC_VALUES)


def value_problems(config: DictConfig, types: Mapping[str, Any]) -> Iterator[str]:
    """Name each key whose value is not of its type, with what it has to be; keys may be absent."""
    for key, kind in types.items():
        section, _, name = key.rpartition(".")
        node = OmegaConf.select(config, section)
        if not isinstance(node, DictConfig) or name not in node:
            continue
        value = OmegaConf.to_container(node[name]) if OmegaConf.is_config(node[name]) else node[name]
        try:
            _adapter(kind).validate_python(value)
        except ValidationError as error:
            expected = (each["msg"].removeprefix("Input should be ") for each in error.errors())
            expected = " or ".join(dict.fromkeys(each.removeprefix("Value error, ") for each in expected))
            yield f"{key}={'null' if value is None else value}: has to be {expected}"


_adapter = cache(TypeAdapter)


def tracker_problems(config: DictConfig, *, installed: bool) -> Iterator[str]:
    """Name trackers that verl does not have, which it says when all models are loaded.

    With `installed`, those too whose package, key or server this machine lacks.
    """
    from verl.utils.tracking import Tracking

    chosen, known = config.trainer.logger, Tracking.supported_backend
    for name in chosen if OmegaConf.is_list(chosen) else [chosen]:
        if name == "tracking":
            yield "trainer.logger: verl calls 'tracking' wandb today; write wandb"
        elif name not in known:
            meant = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {meant[0]}?" if meant else f"it has {', '.join(known)}"
            yield f"trainer.logger: verl has no tracker {name!r}; {hint}"
        # a folder of its name, as wandb makes for its runs, has no origin
        elif installed and name in TRACKER_PACKAGES and not getattr(find_spec(name), "origin", None):
            yield f"trainer.logger: {name} is not installed here: pip install {name}, or leave it out"
    if installed:
        yield from access_problems(config)


def mode_problems(config: DictConfig) -> Iterator[str]:
    """Name a trainer mode that is not registered; modules of the user, loaded before, may register some."""
    trainers = sys.modules.get("verl.trainer.ppo.v1.trainer_base")
    known = dict.fromkeys((*TRAINER_MODES, *MODES, *getattr(trainers, "TRAINER_REGISTRY", ())))
    mode = OmegaConf.select(config, "trainer.v1.trainer_mode")
    if mode not in known:
        yield f"trainer.v1.trainer_mode={mode} is not registered; known: {', '.join(known)}"

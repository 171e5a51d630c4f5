"""Compare the number of ranks that saved a checkpoint with that of a run that resumes from it."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.inspection import CRITIC, world_sizes
from docagent_rl.checkpoints.manifest import file_names
from docagent_rl.checkpoints.sharding import (
    RECORD,
    Sharding,
    check_change,
    saved_version_and_ranks,
)

_VERSIONS = {"fsdp": 1, "fsdp2": 2}
"""FSDP's version by strategy; other strategies have no shards of this kind."""


def check_ranks(config: DictConfig, folder: Path, parts: Sequence[str]) -> str | None:
    """Check that the ranks of a run can load all parts of a checkpoint.

    Returns:
        A notice if another number of ranks saved it, so that its shards are distributed anew.

    Raises:
        UserError: they cannot be distributed over this run's ranks; says what to do.
    """
    notice = None
    for part in parts:
        now = _sharding(config, part)
        if now is None:
            continue
        record = saved_version_and_ranks(folder / part)
        if record is None:
            _check_names(folder, part, now.ranks)
        elif record[1] != now.ranks:
            _check_shards(folder / part, now)
            notice = (
                f"{folder} was saved by {record[1]} ranks, and this run has {now.ranks} "
                "(trainer.nnodes * trainer.n_gpus_per_node): its shards are distributed over "
                "them, and the run goes on with the same samples"
            )
    return notice


def _sharding(config: DictConfig, part: str) -> Sharding | None:
    """Return how a run shards a part; None if its strategy is not of FSDP."""
    critic = part == CRITIC
    section = config.critic if critic else config.actor_rollout_ref.actor
    version = _VERSIONS.get(str(section.strategy))
    if version is None:
        return None
    ranks = config.trainer.nnodes * config.trainer.n_gpus_per_node
    engine = section.fsdp if critic else section.fsdp_config
    group = OmegaConf.select(engine, "fsdp_size", default=-1)
    copies = 0 < group < ranks
    return Sharding(version, (ranks // group, group) if copies else (ranks,))


def _check_shards(folder: Path, now: Sharding) -> None:
    # imported here, since it imports torch
    from docagent_rl.checkpoints.shards import saved_sharding

    saved = saved_sharding(folder)
    if saved is not None:
        check_change(folder, saved, now)


def _check_names(folder: Path, part: str, ranks: int) -> None:
    sizes = world_sizes(file_names(folder), part)
    if sizes and ranks not in sizes:
        saved_by = " or ".join(map(str, sorted(sizes)))
        raise UserError(
            f"{folder / part} was saved by {saved_by} ranks, but this run has {ranks}, and without "
            f"{RECORD}, which is missing, its shards cannot be distributed over them: restore it, "
            f"or resume with {saved_by} ranks (trainer.nnodes * trainer.n_gpus_per_node)"
        )

"""Find the checkpoint that a run goes on from, the latest whole one, before Ray starts."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.inspection import (
    ACTOR,
    CRITIC,
    CheckpointState,
    Verdict,
    inspect,
    world_sizes,
)
from docagent_rl.checkpoints.manifest import (
    CheckpointCheck,
    file_names,
    read_tracker,
    step_folder,
    step_folders,
    step_of,
)

logger = logging.getLogger(__name__)

FROM_SCRATCH = (
    "set trainer.resume_mode=disable to start from the beginning; each stays until its "
    "step is saved again"
)
_FSDP = ("fsdp", "fsdp2")


@dataclass(frozen=True, slots=True)
class StartChoice:
    """The beginning of a run."""

    folder: Path | None
    """The checkpoint; None: there is none to go on from."""
    notice: str | None = None
    """A message, if it is not what verl would take by itself."""
    by_itself: bool = False
    """The same one is what verl takes by itself."""


def settle_resume(config: DictConfig, check: CheckpointCheck) -> None:
    """Verify the checkpoint that a run would go on from; if it is not whole, make the run take
    another one.

    Nothing on disk is changed. verl itself looks at nothing: a tracker that is gone makes it start
    from the beginning without a word, one that is garbled or a file that was cut off ends the run
    minutes later.

    `trainer.resume_mode` and `trainer.resume_from_path` are changed where verl would take something
    else.

    Raises:
        UserError: the named checkpoint is not whole, or none of several is, or the run cannot load
            it.
    """
    trainer = config.trainer
    parts = _parts(config)
    check_saving(config)
    if check is CheckpointCheck.OFF or trainer.resume_mode == "disable":
        return
    if trainer.resume_mode == "resume_path":
        choice = named_checkpoint(Path(trainer.resume_from_path), check, parts)
    else:
        choice = latest_checkpoint(Path(trainer.default_local_dir).absolute(), check, parts)
    if choice.notice:
        logger.warning(choice.notice)
    if choice.folder is not None:
        _check_processes(config, choice.folder, parts)
    if choice.by_itself:
        return
    with open_dict(config):
        trainer.resume_mode = "disable" if choice.folder is None else "resume_path"
        trainer.resume_from_path = None if choice.folder is None else str(choice.folder)


def latest_checkpoint(
    root: Path, check: CheckpointCheck, parts: Sequence[str] = (ACTOR,)
) -> StartChoice:
    """Choose as `trainer.resume_mode=auto` does: the checkpoint that the tracker names, if it is
    whole.

    Otherwise the latest whole one before it; where the tracker names none, the latest of all.

    Raises:
        UserError: there are checkpoints, and none is whole.
    """
    folders = step_folders(root)
    complaint = None
    named = None
    try:
        named = read_tracker(root)
    except ValueError as error:
        complaint = str(error)
    if named is None:
        if complaint is None and not folders:
            return StartChoice(None, by_itself=True)
        complaint = complaint or f"{root} has checkpoints, but no file that names the latest"
        return _last_good(folders, complaint, check, parts, begun=False)
    folder = step_folder(root, named)
    complaint = f"{folder}, the latest checkpoint, is gone"
    if folder.is_dir():
        verdict = inspect(folder, check, parts)
        if verdict.usable:
            return StartChoice(folder, _doubt(verdict), by_itself=True)
        complaint = f"{folder} is not whole ({verdict.reason})"
    earlier = [path for path in folders if (step_of(path) or 0) < named]
    return _last_good(earlier, complaint, check, parts, begun=True)


def named_checkpoint(
    folder: Path, check: CheckpointCheck, parts: Sequence[str] = (ACTOR,)
) -> StartChoice:
    """Choose as `trainer.resume_mode=resume_path` does: this one, or none.

    Raises:
        UserError: it is not whole.
    """
    folder = folder.absolute()
    if step_of(folder) is None:
        raise UserError(
            f"trainer.resume_from_path={folder}: has to be the path of a folder "
            "global_step_<number>"
        )
    problem = "no such folder"
    if folder.is_dir():
        verdict = inspect(folder, check, parts)
        if verdict.usable:
            return StartChoice(folder, _doubt(verdict))
        problem = f"the checkpoint is not whole: {verdict.reason}"
    raise UserError(
        f"trainer.resume_from_path={folder}: {problem}; trainer.resume_mode=auto finds the last "
        "whole one"
    )


def check_saving(config: DictConfig) -> None:
    """Refuse `async_save` with FSDP, which saves at once all the same.

    Raises:
        UserError: it is on: verl would never name a checkpoint as the latest.
    """
    section = config.actor_rollout_ref.actor
    if section.strategy in _FSDP and OmegaConf.select(section, "checkpoint.async_save"):
        raise UserError(
            "actor_rollout_ref.actor.checkpoint.async_save=true: verl saves asynchronously with "
            "Megatron "
            "only, and the run could not go on from any checkpoint: set it to false"
        )


def _last_good(
    folders: Sequence[Path],
    complaint: str,
    check: CheckpointCheck,
    parts: Sequence[str],
    *,
    begun: bool,
) -> StartChoice:
    """Choose the first whole one of the folders, the latest first, in the place of verl's choice.

    With `begun`, a checkpoint was whole once, so that a fresh start would lose something.
    """
    bad: list[Verdict] = []
    for folder in folders:
        verdict = inspect(folder, check, parts)
        if verdict.usable:
            doubt = f" ({doubt})" if (doubt := _doubt(verdict)) else ""
            return StartChoice(
                folder, f"{complaint}: the run goes on from {folder}, the last whole one{doubt}"
            )
        bad.append(verdict)
    if begun or any(verdict.state is CheckpointState.DAMAGED for verdict in bad):
        listed = "".join(f"\n  {verdict.folder.name}: {verdict.reason}" for verdict in bad)
        raise UserError(
            f"{complaint}, and no other checkpoint is whole: put one back, or "
            f"{FROM_SCRATCH}{listed}"
        )
    if bad:
        complaint = f"the run ended while it saved its first checkpoint ({bad[0].folder})"
    return StartChoice(None, f"{complaint}: the run starts from the beginning")


def _doubt(verdict: Verdict) -> str | None:
    if verdict.state is not CheckpointState.UNSEALED:
        return None
    return (
        f"{verdict.folder} has no manifest, as those of verl alone: its files seem whole, but "
        "damage inside "
        "of them would go unseen"
    )


def _parts(config: DictConfig) -> tuple[str, ...]:
    """Return the models that verl trains: a critic where one is enabled, or where GAE leaves it
    open.
    """
    enabled = config.critic.enable
    critic = config.algorithm.adv_estimator == "gae" if enabled is None else enabled
    return (ACTOR, CRITIC) if critic else (ACTOR,)


def _check_processes(config: DictConfig, folder: Path, parts: Sequence[str]) -> None:
    """Refuse shards of other processes than this run has: FSDP loads those of as many as it
    runs.
    """
    if config.actor_rollout_ref.actor.strategy not in _FSDP:
        return
    processes = config.trainer.nnodes * config.trainer.n_gpus_per_node
    names = file_names(folder)
    for part in parts:
        sizes = world_sizes(names, part)
        if sizes and processes not in sizes:
            saved = " or ".join(map(str, sorted(sizes)))
            raise UserError(
                f"{folder / part} was saved by {saved} processes, this run has {processes} "
                "(trainer.nnodes * trainer.n_gpus_per_node), which cannot load it: use as many, or "
                "trainer.resume_mode=disable with actor_rollout_ref.model.path set to the model "
                "merged by "
                "`python -m verl.model_merger`"
            )

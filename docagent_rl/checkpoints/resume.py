"""Find the checkpoint that a run resumes from, the latest intact one, before Ray starts."""

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
)
from docagent_rl.checkpoints.manifest import (
    CheckpointCheck,
    read_tracker,
    step_folder,
    step_folders,
    step_of,
)
from docagent_rl.checkpoints.ranks import check_ranks

logger = logging.getLogger(__name__)

FROM_SCRATCH = (
    "set trainer.resume_mode=disable to start from the beginning; each of these checkpoints is "
    "kept until its step is saved again"
)
_FSDP = ("fsdp", "fsdp2")


@dataclass(frozen=True, slots=True)
class StartChoice:
    """The checkpoint, or the beginning, that a run starts from."""

    folder: Path | None
    """The checkpoint to resume from; None: start from the beginning."""
    notice: str | None = None
    """A warning for the user, if there is something to say about the choice."""
    by_itself: bool = False
    """True if verl would make the same choice without our help."""


def choose_checkpoint(config: DictConfig, check: CheckpointCheck) -> None:
    """Verify the checkpoint that a run would resume from, and choose another one if it is damaged.

    Nothing on disk is changed. verl itself verifies nothing: if the tracker is missing, it silently
    starts from the beginning; if the tracker is garbled or a file is truncated, the run fails
    minutes later.

    `trainer.resume_mode` and `trainer.resume_from_path` are changed if verl would choose
    differently.

    Raises:
        UserError: the requested checkpoint is damaged, or all of them are, or the run cannot load
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
        notice = check_ranks(config, choice.folder, parts)
        if notice is not None:
            logger.warning(notice)
    if choice.by_itself:
        return
    with open_dict(config):
        trainer.resume_mode = "disable" if choice.folder is None else "resume_path"
        trainer.resume_from_path = None if choice.folder is None else str(choice.folder)


def latest_checkpoint(
    root: Path, check: CheckpointCheck, parts: Sequence[str] = (ACTOR,)
) -> StartChoice:
    """Choose as for `trainer.resume_mode=auto`: the checkpoint in the tracker, if it is intact.

    Otherwise choose the latest intact one before it; without a readable tracker, the latest intact
    one of all.

    Raises:
        UserError: there are checkpoints, but none is intact.
    """
    folders = step_folders(root)
    try:
        named = read_tracker(root)
    except ValueError as error:
        return _last_good(folders, str(error), check, parts, begun=False)
    if named is None:
        if not folders:
            return StartChoice(None, by_itself=True)
        complaint = f"{root} has checkpoints, but no tracker that names the latest"
        return _last_good(folders, complaint, check, parts, begun=False)

    folder = step_folder(root, named)
    complaint = f"{folder}, the latest checkpoint, does not exist any more"
    if folder.is_dir():
        verdict = inspect(folder, check, parts)
        if verdict.usable:
            return StartChoice(folder, _doubt(verdict), by_itself=True)
        complaint = f"{folder} is damaged or incomplete ({verdict.reason})"
    earlier = [path for path in folders if (step_of(path) or 0) < named]
    return _last_good(earlier, complaint, check, parts, begun=True)


def named_checkpoint(
    folder: Path, check: CheckpointCheck, parts: Sequence[str] = (ACTOR,)
) -> StartChoice:
    """Choose as for `trainer.resume_mode=resume_path`: exactly this checkpoint.

    Raises:
        UserError: it is damaged, incomplete, or does not exist.
    """
    folder = folder.absolute()
    if step_of(folder) is None:
        raise UserError(
            f"trainer.resume_from_path={folder}: it must be the path of a folder "
            "global_step_<number>"
        )
    problem = "there is no such folder"
    if folder.is_dir():
        verdict = inspect(folder, check, parts)
        if verdict.usable:
            return StartChoice(folder, _doubt(verdict))
        problem = f"the checkpoint is damaged or incomplete: {verdict.reason}"
    raise UserError(
        f"trainer.resume_from_path={folder}: {problem}; trainer.resume_mode=auto finds the latest "
        "intact one"
    )


def check_saving(config: DictConfig) -> None:
    """Refuse `async_save` with FSDP, which saves synchronously anyway.

    Raises:
        UserError: it is on, and verl would never write the tracker.
    """
    section = config.actor_rollout_ref.actor
    if section.strategy in _FSDP and OmegaConf.select(section, "checkpoint.async_save"):
        raise UserError(
            "actor_rollout_ref.actor.checkpoint.async_save=true: verl only saves asynchronously "
            "with Megatron, and the run could not resume from any checkpoint: set it to false"
        )


def _last_good(
    folders: Sequence[Path],
    complaint: str,
    check: CheckpointCheck,
    parts: Sequence[str],
    *,
    begun: bool,
) -> StartChoice:
    """Choose the first intact one of the folders, the latest first, instead of verl's choice.

    `begun` says that a checkpoint was completed before, so that a fresh start would lose progress.
    """
    bad: list[Verdict] = []
    for folder in folders:
        verdict = inspect(folder, check, parts)
        if verdict.usable:
            doubt = f" ({doubt})" if (doubt := _doubt(verdict)) else ""
            return StartChoice(
                folder, f"{complaint}: the run resumes from {folder}, the last intact one{doubt}"
            )
        bad.append(verdict)
    if begun or any(verdict.state is CheckpointState.DAMAGED for verdict in bad):
        listed = "".join(f"\n  {verdict.folder.name}: {verdict.reason}" for verdict in bad)
        raise UserError(
            f"{complaint}, and no other checkpoint is intact: restore one, or "
            f"{FROM_SCRATCH}{listed}"
        )
    if bad:
        complaint = f"the run ended while it was saving its first checkpoint ({bad[0].folder})"
    return StartChoice(None, f"{complaint}: the run starts from the beginning")


def _doubt(verdict: Verdict) -> str | None:
    if verdict.state is not CheckpointState.UNSEALED:
        return None
    return (
        f"{verdict.folder} has no manifest, so it was saved without this plugin: its files seem "
        "complete, but damage inside them would go unnoticed"
    )


def _parts(config: DictConfig) -> tuple[str, ...]:
    """Return the models that verl trains; a critic if it is enabled, or by default with GAE."""
    enabled = config.critic.enable
    critic = config.algorithm.adv_estimator == "gae" if enabled is None else enabled
    return (ACTOR, CRITIC) if critic else (ACTOR,)

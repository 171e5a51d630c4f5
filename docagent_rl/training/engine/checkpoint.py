"""Which folder of weights a path means: Hugging Face's own, or a checkpoint of a run, merged once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from docagent_rl.checkpoints.inspection import inspect
from docagent_rl.checkpoints.layout import TRACKER, read_tracker, step_folder, step_of
from docagent_rl.checkpoints.manifest import CheckpointCheck, checksums, read_manifest
from docagent_rl.checkpoints.structure import ACTOR, is_shard
from docagent_rl.errors import UserError
from docagent_rl.io import atomic_dir

MERGED = "merged"
"""Folder beside the checkpoints of a run."""
_SHARDS = "model_world_size_*_rank_*.pt"
_WEIGHTS = ("*.safetensors", "*.bin")
_SMALL = 1 << 20
"""Bytes of a file that are read at either end to tell it from others."""
_LAST_WORDS = 400


def model_folder(path: str | Path) -> str:
    """Where vLLM finds the weights that a path means.

    Args:
        path: a folder of Hugging Face's format or a name of the hub, returned as they are; a checkpoint of a
            run, `.../global_step_<n>` or its part `actor`; or the folder of a run or of its checkpoints,
            which means the latest one.

    Raises:
        UserError: the checkpoint is damaged or of another kind, or it cannot be merged.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        if str(path).startswith(("/", ".", "~")):
            raise UserError(f"--model {path}: there is no such folder")
        return str(path)  # a name of the hub
    if (folder / "config.json").is_file():
        return str(folder)
    for root in (folder, folder / "checkpoints"):
        if (root / TRACKER).is_file():
            folder = _latest(root)
    if folder.name == ACTOR and step_of(folder.parent) is not None:
        folder = folder.parent
    if step_of(folder) is None:
        raise UserError(
            f"--model {path}: neither a model (it has no config.json) nor a checkpoint of a run (a folder "
            "global_step_<n>)"
        )
    return str(_merged(folder))


def model_identity(folder: str) -> dict[str, str]:
    """What tells a model from others: its path, and a digest of its files (of large ones size and ends)."""
    path = Path(folder)
    if not path.is_dir():
        return {"path": folder}
    digest = hashlib.sha256()
    for file in sorted(path.iterdir()):
        if file.is_file():
            digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
            digest.update(_ends(file))
    return {"path": str(path.absolute()), "sha256": digest.hexdigest()}


def _ends(file: Path) -> bytes:
    size = file.stat().st_size
    with file.open("rb") as opened:
        first = opened.read(_SMALL)
        opened.seek(max(0, size - _SMALL))
        return first + opened.read(_SMALL)


def _latest(root: Path) -> Path:
    try:
        step = read_tracker(root)
    except ValueError as error:
        raise UserError(str(error)) from error
    return step_folder(root, step or 0)


def _merged(checkpoint: Path) -> Path:
    """The weights of a checkpoint in Hugging Face's format, made once.

    Raises:
        UserError: see `model_folder`.
    """
    verdict = inspect(checkpoint, CheckpointCheck.SIZES)
    if not verdict.usable:
        raise UserError(f"{checkpoint} is {verdict.state.value}: {verdict.reason}")
    actor = checkpoint / ACTOR
    whole = actor / "huggingface"
    if any(file for pattern in _WEIGHTS for file in whole.glob(pattern)):
        return whole  # saved with checkpoint.save_contents=[..., hf_model]
    shards = sorted(actor.glob(_SHARDS))
    if not shards or not (actor / "fsdp_config.json").is_file():
        raise UserError(f"{actor} holds no weights of FSDP (model_world_size_<n>_rank_<r>.pt)")
    target = checkpoint.parent / MERGED / f"{checkpoint.name}-{_digest(checkpoint, shards)[:16]}"
    if not (target / "config.json").is_file():
        _merge(actor, target, sum(shard.stat().st_size for shard in shards))
    return target


def _digest(checkpoint: Path, shards: list[Path]) -> str:
    """Of the shards' content."""
    names = [shard.relative_to(checkpoint).as_posix() for shard in shards]
    sums: Mapping[str, str | None] = {}
    manifest = read_manifest(checkpoint)
    if manifest is not None:
        sums = {name: entry.sha256 for name, entry in manifest.files.items() if is_shard(name)}
    if any(sums.get(name) is None for name in names):
        sizes = {name: (checkpoint / name).stat().st_size for name in names}
        sums = checksums(checkpoint, sizes)
    return hashlib.sha256(json.dumps([[name, sums[name]] for name in names]).encode()).hexdigest()


def _merge(actor: Path, target: Path, size: int) -> None:
    """Have verl merge the shards, in a process of its own: it unpickles them.

    Raises:
        UserError: there is no room, or verl fails.
    """
    parent = target.parent.parent
    free = shutil.disk_usage(parent).free
    if free < size:
        raise UserError(
            f"{target} takes up to {size / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free: make room there"
        )
    print(f"docagent-rl: merging {actor} into {target}, once", file=sys.stderr)
    with atomic_dir(target) as folder:
        command = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
        ended = subprocess.run(
            [*command, "--local_dir", str(actor), "--target_dir", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TQDM_DISABLE": "1"},
            check=False,
        )
        if ended.returncode or not (folder / "config.json").is_file():
            said = ended.stdout.decode(errors="replace").strip()[-_LAST_WORDS:]
            raise UserError(f"verl.model_merger cannot merge {actor} (status {ended.returncode}): {said}")

"""Find the weights for a path: a model in Hugging Face's format, or a checkpoint, which is merged
once.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_dir
from docagent_rl.checkpoints.inspection import ACTOR, archive_problem, inspect, is_shard
from docagent_rl.checkpoints.manifest import (
    TRACKER,
    CheckpointCheck,
    checksums,
    read_manifest,
    read_tracker,
    step_folder,
    step_of,
)
from docagent_rl.training.engine.adapter import (
    LORA,
    SETTINGS,
    add_adapter,
    has_adapter,
    problem_of_merge,
)

MERGED = "merged"
"""Folder next to the checkpoints of a run."""
LORA_META = "lora_train_meta.json"
"""Rank and alpha of a LoRA adapter, which verl writes next to the shards."""
_SHARDS = "model_world_size_*_rank_*.pt"
_WEIGHTS = ("*.safetensors", "*.bin")
_SMALL = 1 << 20
"""Bytes that are read at both ends of a file to identify it."""
_BASE = "base"
"""Temporary folder of the merged shards until their adapter is merged."""


def weights_folder(path: str | Path) -> str:
    """Return the folder or name from which vLLM can load the weights that a path refers to.

    Args:
        path: a folder in Hugging Face's format or a name on the hub, returned unchanged; a
            checkpoint of an RL or fine-tuning run, `.../global_step_<n>` or its part `actor`; or
            the folder of a run or of its checkpoints, which refers to the latest checkpoint.

    Raises:
        UserError: the checkpoint is damaged, of another kind, an adapter, or cannot be merged.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        if str(path).startswith(("/", ".", "~")):
            raise UserError(f"--model {path}: there is no such folder")
        return str(path)  # a name on the hub
    if has_adapter(folder) or has_adapter(folder / LORA):
        raise UserError(
            f"--model {path} contains an adapter: merge it into its base model (PEFT's "
            "merge_and_unload) and use the resulting folder, or use the checkpoint it belongs to"
        )
    if (folder / "config.json").is_file():
        return str(folder)
    for root in (folder, folder / "checkpoints"):
        if (root / TRACKER).is_file():
            try:
                folder = step_folder(root, read_tracker(root) or 0)
            except ValueError as error:
                raise UserError(str(error)) from error
    if folder.name == ACTOR and step_of(folder.parent) is not None:
        folder = folder.parent
    if step_of(folder) is None:
        raise UserError(
            f"--model {path}: this is neither a model (there is no config.json) nor a checkpoint "
            "of a run (a folder global_step_<n>)"
        )
    return str(_merged(folder))


def model_identity(folder: str) -> dict[str, str]:
    """Return a model's path, and a digest of its files (of size and both ends for large files)."""
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


def _merged(checkpoint: Path) -> Path:
    """Return the weights of a checkpoint in Hugging Face's format, merging them if necessary."""
    actor = _actor(checkpoint)
    whole = actor / "huggingface"
    exported = any(file for pattern in _WEIGHTS for file in whole.glob(pattern))
    # for a model with an adapter, verl exports weights under names that do not match the model
    if exported and not (actor / LORA_META).is_file():
        return whole  # saved with checkpoint.save_contents=[..., hf_model]
    shards = sorted(actor.glob(_SHARDS))
    if not shards or not (actor / "fsdp_config.json").is_file():
        raise UserError(f"{actor} contains no FSDP weights (model_world_size_<n>_rank_<r>.pt)")
    target = checkpoint.parent / MERGED / f"{checkpoint.name}-{_digest(checkpoint, shards)[:16]}"
    if not (target / "config.json").is_file():
        print(f"docagent-rl: merging {actor} into {target} (only once)", file=sys.stderr)
        with atomic_dir(target) as made:
            _merge(actor, made)
    return target


def _actor(checkpoint: Path) -> Path:
    """Return the weights' folder: a part of an RL checkpoint, or a fine-tuning checkpoint
    itself.
    """
    if not (checkpoint / ACTOR).is_dir() and (shards := sorted(checkpoint.glob(_SHARDS))):
        for shard in shards:
            if problem := archive_problem(shard):
                raise UserError(f"{shard} {problem}")
        return checkpoint
    verdict = inspect(checkpoint, CheckpointCheck.SIZES)
    if not verdict.usable:
        raise UserError(f"{checkpoint} is {verdict.state.value}: {verdict.reason}")
    return checkpoint / ACTOR


def _digest(checkpoint: Path, shards: list[Path]) -> str:
    names = [shard.relative_to(checkpoint).as_posix() for shard in shards]
    sums: Mapping[str, str | None] = {}
    manifest = read_manifest(checkpoint)
    if manifest is not None:
        sums = {name: entry.sha256 for name, entry in manifest.files.items() if is_shard(name)}
    if any(sums.get(name) is None for name in names):
        sizes = {name: (checkpoint / name).stat().st_size for name in names}
        sums = checksums(checkpoint, sizes)
    contents: list[object] = [[name, sums[name]] for name in names]
    meta = shards[0].parent / LORA_META
    if meta.is_file():
        contents.append(meta.read_text())
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()


def _merge(actor: Path, folder: Path) -> None:
    """Merge the shards into a folder with verl, and their adapter, if any, with PEFT."""
    base = folder / _BASE
    _merge_shards(actor, base)
    if not has_adapter(base / LORA):
        for file in base.iterdir():
            file.rename(folder / file.name)
        base.rmdir()
        return
    if not json.loads((base / LORA / SETTINGS).read_text()).get("lora_alpha"):
        raise UserError(
            f"{actor / LORA_META} does not contain the adapter's lora_alpha: add the value used in "
            'training, for example {"r": 32, "lora_alpha": 64}'
        )
    add_adapter(base, base / LORA, folder)
    shutil.rmtree(base)


def _merge_shards(actor: Path, target: Path) -> None:
    """Merge shards in a separate process, because verl unpickles them."""
    command = ["verl.model_merger", "merge", "--backend", "fsdp"]
    problem = problem_of_merge(
        [*command, "--local_dir", str(actor), "--target_dir", str(target)], target
    )
    if problem is None:
        return
    if has_adapter(target / LORA):
        raise UserError(
            f"{actor} contains an adapter without the weights it was trained on "
            "(checkpoint.save_lora_only): save them too, or merge the adapter into its base model "
            "yourself and use that folder"
        )
    raise UserError(f"verl.model_merger cannot merge {actor} {problem}")

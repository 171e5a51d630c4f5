"""A checkpoint of FSDP2 is loaded by another number of ranks than saved it.

Upstream: verl 0.9.1, `verl/utils/checkpoint/fsdp_checkpoint_manager.py`,
`FSDPCheckpointManager.load_checkpoint`, and `checkpoint_handler.py`,
`CheckpointHandler._load_dataloader_state` (https://github.com/verl-project/verl/issues/2265). Each
rank reads the file with its own rank and number of ranks in the name, which does not exist for
another number, or is of an earlier save of the same step. In supervised training, the loader's
state counts the rows of one rank.

Here the record beside the shards says how many ranks saved them. If the number differs, the shards
are distributed anew (`training/workers/resharding.py`), and rows are counted from batches.

No longer needed once verl loads checkpoints of other numbers of ranks, optimizer included.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from docagent_rl.checkpoints.sharding import saved_version_and_ranks
from docagent_rl.training.patching import TRAINING, Patch, replace

_HANDLER = "verl.utils.checkpoint.checkpoint_handler"


def _apply(module: ModuleType) -> None:
    if module.__name__ == _HANDLER:
        _patch_handler(module)
    else:
        _patch_manager(module)


def _patch_manager(module: ModuleType) -> None:
    manager = module.FSDPCheckpointManager
    load = manager.load_checkpoint

    def load_checkpoint(
        self: Any,
        local_path: str | None,
        hdfs_path: str | None = None,
        del_local_after_load: bool = False,
    ) -> None:
        saved = None if local_path is None else saved_version_and_ranks(Path(local_path))
        if local_path is None or saved is None or saved[1] == self.world_size:
            load(self, local_path, hdfs_path, del_local_after_load)
            return
        # imported here, since it imports the module that is being patched
        from docagent_rl.training.workers.resharding import load_resharded

        load_resharded(self, Path(local_path), *saved)

    replace(manager, "load_checkpoint", load_checkpoint)


def _patch_handler(module: ModuleType) -> None:
    handler = module.CheckpointHandler
    load = handler._load_dataloader_state

    def _load_dataloader_state(self: Any, checkpoint_path: str) -> None:
        folder = Path(checkpoint_path)
        saved = saved_version_and_ranks(folder)
        # with Ray, the driver's loader has the rows of all ranks
        in_driver = not torch.distributed.is_initialized()
        if saved is None or in_driver or saved[1] == torch.distributed.get_world_size():
            load(self, checkpoint_path)
            return
        from docagent_rl.training.workers.resharding import loader_state

        state = loader_state(folder / "data_0.pt", self.train_dataloader.batch_size)
        self.train_dataloader.load_state_dict(state)

    replace(handler, "_load_dataloader_state", _load_dataloader_state)


PATCH = Patch(
    name="checkpoint_of_other_ranks",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/checkpoint/fsdp_checkpoint_manager.py, "
    "FSDPCheckpointManager.load_checkpoint; checkpoint_handler.py, "
    "CheckpointHandler._load_dataloader_state; https://github.com/verl-project/verl/issues/2265",
    reason="a run cannot resume from a checkpoint that another number of ranks has saved",
    target_module="verl.utils.checkpoint.fsdp_checkpoint_manager",
    more_modules=(_HANDLER,),
    apply=_apply,
    processes=TRAINING,
)

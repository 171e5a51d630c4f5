"""A supervised run that resumes from the end of an epoch trains on the next one.

Upstream: verl 0.9.1, `verl/utils/checkpoint/checkpoint_handler.py`,
`CheckpointHandler.load_checkpoint`. It always restores the saved state of the data loader. In a
checkpoint of an epoch's last step, which `trainer.save_freq=after_each_epoch` writes, the loader is
exhausted: the next epoch has no batches. It is skipped silently, and the run ends one epoch short,
without ever reaching its last step and saving a checkpoint for it.

Here such a state is not restored: the loader starts a new epoch in the order of its sampler.

No longer needed once verl compares the step with the length of an epoch.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    handler = module.CheckpointHandler
    load = handler._load_dataloader_state

    def _load_dataloader_state(self: Any, checkpoint_path: str) -> None:
        steps = len(self.train_dataloader)
        if not steps or module.extract_step(checkpoint_path) % steps:
            load(self, checkpoint_path)

    replace(handler, "_load_dataloader_state", _load_dataloader_state)


PATCH = Patch(
    name="sft_resume_at_epoch_end",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/checkpoint/checkpoint_handler.py, "
    "CheckpointHandler._load_dataloader_state",
    reason="a supervised run that resumes from the end of an epoch skips the next epoch",
    target_module="verl.utils.checkpoint.checkpoint_handler",
    apply=_apply,
    processes=TRAINING,
)

"""A supervised run that goes on from the end of an epoch trains on the next one.

Upstream: verl 0.9.1, `verl/utils/checkpoint/checkpoint_handler.py`,
`CheckpointHandler.load_checkpoint`: it always gives the data loader the state it was saved with. A
checkpoint of an epoch's last step, which is what `trainer.save_freq=after_each_epoch` writes, holds
a loader that has handed out everything: the epoch that the trainer begins with then has no batch.
It passes without a word, the run ends an epoch short, never reaches its last step, and saves no
checkpoint for it.

Here such a state is left alone: the loader begins the epoch anew, in the order that its sampler
gives it.

Unneeded once verl compares the step with the length of an epoch.
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
    reason="a supervised run that goes on from the end of an epoch leaves the next epoch out",
    target_module="verl.utils.checkpoint.checkpoint_handler",
    apply=_apply,
    processes=TRAINING,
)

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import verl.utils.checkpoint.checkpoint_handler as upstream
from torch.utils.data import DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader

ROWS, BATCH = 12, 3
EPOCH = ROWS // BATCH


def loader() -> StatefulDataLoader:
    sampler = DistributedSampler(range(ROWS), num_replicas=1, rank=0, shuffle=True, drop_last=True)
    return StatefulDataLoader(list(range(ROWS)), batch_size=BATCH, sampler=sampler, drop_last=True)


def batches(found: StatefulDataLoader, start: int, most: int) -> dict[int, list[int]]:
    """What the trainer's two loops hand out after `start` steps, by step."""
    step, given = start, {}
    for epoch in range(start // EPOCH, 3):
        found.sampler.set_epoch(epoch)
        for batch in found:
            step += 1
            given[step] = batch.tolist()
            if step == most:
                return given
    return given


def resumed(load, folder, step: int) -> dict[int, list[int]]:
    """Batches after a stop at a step, its checkpoint loaded as the handler does."""
    first, second = loader(), loader()
    batches(first, 0, step)
    path = folder / f"global_step_{step}"
    path.mkdir()
    torch.save(first.state_dict(), path / "data_0.pt")
    load(SimpleNamespace(train_dataloader=second, dp_rank=0, rank=0), str(path))
    return batches(second, step, 3 * EPOCH)


WHOLE = batches(loader(), 0, 3 * EPOCH)


def test_upstream_still_leaves_an_epoch_out(tmp_path):
    original = upstream.CheckpointHandler._load_dataloader_state.__wrapped__
    assert len(resumed(original, tmp_path, EPOCH)) == EPOCH
    assert len(WHOLE) == 3 * EPOCH


@pytest.mark.parametrize("step", [1, EPOCH - 1, EPOCH, EPOCH + 1, 2 * EPOCH])
def test_a_resumed_run_sees_the_batches_of_one_that_was_not_stopped(tmp_path, step):
    found = resumed(upstream.CheckpointHandler._load_dataloader_state, tmp_path, step)
    assert found == {number: batch for number, batch in WHOLE.items() if number > step}

"""Data loaders of supervised runs that resume with another number of ranks; weights and optimizers
are in `tests/training/workers/test_resharding.py`.
"""

import json
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.utils.checkpoint.checkpoint_handler import CheckpointHandler

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.sharding import RECORD

ROWS = 37
BATCH = 6
STEP = 3
"""The step after which the runs are saved; an epoch has 6."""
SAVED = 2
"""The ranks that save."""


@pytest.fixture
def _one_rank(tmp_path):
    meeting = f"file://{tmp_path}/meeting"
    torch.distributed.init_process_group("gloo", init_method=meeting, world_size=1, rank=0)
    yield
    torch.distributed.destroy_process_group()


def loader(rank: int, ranks: int, workers: int) -> StatefulDataLoader:
    """Return a rank's loader as verl's supervised trainer makes it."""
    rows = list(range(ROWS))
    sampler = DistributedSampler(rows, num_replicas=ranks, rank=rank, shuffle=True, drop_last=True)
    return StatefulDataLoader(
        rows, batch_size=BATCH // ranks, sampler=sampler, drop_last=True, num_workers=workers
    )


def together(loaders) -> list[list[int]]:
    """Return the rows of each batch, whichever rank has them."""
    return [sorted(torch.cat(parts).tolist()) for parts in zip(*loaders, strict=True)]


def saved(folder, workers: int) -> None:
    for rank in range(SAVED):
        made = loader(rank, SAVED, workers)
        rows = iter(made)
        for _ in range(STEP):
            next(rows)
        torch.save(made.state_dict(), folder / f"data_{rank}.pt")
    (folder / RECORD).write_text(json.dumps({"FSDP_version": 2, "world_size": SAVED}))


def resumed(load, folder, ranks: int, workers: int) -> list[list[int]]:
    loaders = [loader(rank, ranks, workers) for rank in range(ranks)]
    for rank, made in enumerate(loaders):
        load(SimpleNamespace(train_dataloader=made, dp_rank=rank, rank=rank), str(folder))
    return together(loaders)


@pytest.mark.usefixtures("_one_rank")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("ranks", [1, 3])
def test_other_ranks_see_the_batches_that_are_left(tmp_path, ranks, workers):
    folder = tmp_path / f"global_step_{STEP}"
    folder.mkdir()
    saved(folder, workers)
    whole = together([loader(0, 1, 0)])
    assert whole == together([loader(rank, 3, 0) for rank in range(3)])
    load = CheckpointHandler._load_dataloader_state
    assert resumed(load, folder, ranks, workers) == whole[STEP:]


@pytest.mark.usefixtures("_one_rank")
def test_upstream_still_counts_the_rows_of_one_rank(tmp_path):
    """If this test fails, the loader's part of the patch is no longer needed."""
    folder = tmp_path / f"global_step_{STEP}"
    folder.mkdir()
    saved(folder, 0)
    patched = CheckpointHandler._load_dataloader_state
    original = patched.__wrapped__.__wrapped__
    assert "docagent_rl" not in original.__module__
    assert resumed(original, folder, 1, 0) != together([loader(0, 1, 0)])[STEP:]


@pytest.mark.usefixtures("_one_rank")
def test_the_state_of_another_loader_is_refused(tmp_path):
    folder = tmp_path / f"global_step_{STEP}"
    folder.mkdir()
    saved(folder, 0)
    torch.save({"step": 3}, folder / "data_0.pt")
    with pytest.raises(UserError, match=r"data_0\.pt is not the state"):
        resumed(CheckpointHandler._load_dataloader_state, folder, 1, 0)

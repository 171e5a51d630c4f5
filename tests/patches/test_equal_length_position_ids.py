from __future__ import annotations

import pickle

import pytest
import torch
import verl.utils.tensordict_utils as upstream
from tensordict import TensorDict


def batch(lengths: list[int]) -> tuple[TensorDict, list[torch.Tensor]]:
    """As TransferQueue hands it over; and its rows."""
    rows = [torch.randint(99, (4, length)) for length in lengths]
    nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    return TensorDict({"position_ids": nested}, batch_size=len(rows)), rows


def read(data: TensorDict, chunks: int) -> list[torch.Tensor]:
    parts = upstream.chunk_tensordict(data, chunks)
    return [row for part in parts for row in part["position_ids"].unbind()]


def test_upstream_still_fails_for_rows_of_one_length():
    data, _ = batch([6, 6])
    upstream.maybe_fix_3d_position_ids.__wrapped__(data)
    with pytest.raises(RuntimeError):
        read(data, 2)


@pytest.mark.parametrize("lengths", [[6, 6], [6], [3, 9, 3, 9], [4, 4, 4, 4], [1, 1]])
@pytest.mark.parametrize("sent", [False, True])
def test_rows_come_out_as_they_went_in(lengths, sent):
    data, rows = batch(lengths)
    if sent:
        data = pickle.loads(pickle.dumps(data.consolidate()))
    upstream.maybe_fix_3d_position_ids(data)
    assert [row.shape for row in data["position_ids"].unbind()] == [row.shape for row in rows]
    for chunks in {1, len(lengths)}:
        found = read(data, chunks)
        assert all(torch.equal(a, b) for a, b in zip(found, rows, strict=True))
    upstream.maybe_fix_3d_position_ids(data)
    assert all(torch.equal(a, b) for a, b in zip(read(data, len(lengths)), rows, strict=True))


def test_other_batches_are_left_alone():
    flat = torch.nested.as_nested_tensor([torch.arange(3), torch.arange(3)], layout=torch.jagged)
    data = TensorDict({"position_ids": flat}, batch_size=2)
    upstream.maybe_fix_3d_position_ids(data)
    assert data["position_ids"] is flat
    upstream.maybe_fix_3d_position_ids(TensorDict({}, batch_size=2))

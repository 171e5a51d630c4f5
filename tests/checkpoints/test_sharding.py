import json
import pickle
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.sharding import (
    RECORD,
    Sharding,
    check_change,
    pieces,
    saved_version_and_ranks,
    shard_range,
)
from docagent_rl.checkpoints.shards import read_tensors, saved_sharding

RANKS = st.integers(1, 17)
PAIRS = st.tuples(RANKS, RANKS)
SIZES = st.integers(0, 40)
FSDP2 = 2


def chunks(tensor, ranks, dim=0) -> list[torch.Tensor]:
    """Return the shards as torch makes them, with empty ones where it makes too few."""
    made = list(torch.chunk(tensor, ranks, dim))
    empty = tensor.narrow(dim, 0, 0)
    return made[: tensor.shape[dim] and ranks] + [empty] * (ranks - len(made))


@given(size=st.integers(1, 40), ranks=RANKS)
def test_ranges_are_those_of_torch(size, ranks):
    found = [list(shard_range(size, rank, ranks)) for rank in range(ranks)]
    assert found == [chunk.tolist() for chunk in chunks(torch.arange(size), ranks)]


@given(size=st.integers(1, 40), other=st.integers(1, 3), dim=st.integers(0, 1), ranks=PAIRS)
def test_shards_of_any_ranks_are_made_of_those_of_any_others(size, other, dim, ranks):
    saved, now = ranks
    tensor = torch.rand((size, other) if dim == 0 else (other, size))
    sources = chunks(tensor, saved, dim)
    for rank, expected in enumerate(chunks(tensor, now, dim)):
        own = torch.full_like(expected, torch.nan)
        for piece in pieces(size, rank, now, saved):
            part = sources[piece.saved_rank].narrow(dim, piece.saved_start, piece.length)
            own.narrow(dim, piece.start, piece.length).copy_(part)
        assert torch.equal(own, expected)


@given(size=SIZES, rank=st.integers(0, 16), saved=RANKS)
def test_only_shards_that_overlap_are_read(size, rank, saved):
    own = set(shard_range(size, rank, 17))
    read = {piece.saved_rank for piece in pieces(size, rank, 17, saved)}
    overlapping = {r for r in range(saved) if own & set(shard_range(size, r, saved))}
    assert read == overlapping


def test_the_same_ranks_keep_their_shards():
    for rank in range(3):
        (piece,) = pieces(7, rank, 3, 3)
        assert (piece.saved_rank, piece.saved_start, piece.start) == (rank, 0, 0)


@pytest.mark.parametrize(
    ("saved", "now", "named"),
    [
        (Sharding(FSDP2, (4, 2)), Sharding(FSDP2, (4,)), "4 x 2 ranks with HSDP"),
        (Sharding(FSDP2, (8,)), Sharding(FSDP2, (2, 2)), "2 x 2 ranks with HSDP"),
        (Sharding(1, (8,)), Sharding(FSDP2, (4,)), "8 ranks with FSDP1"),
        (Sharding(FSDP2, (8,)), Sharding(1, (4,)), "4 ranks with FSDP1"),
    ],
)
def test_what_cannot_be_distributed_anew_is_refused(tmp_path, saved, now, named):
    check_change(tmp_path, Sharding(FSDP2, (8,)), Sharding(FSDP2, (3,)))
    with pytest.raises(UserError, match=named) as caught:
        check_change(tmp_path, saved, now)
    assert f"Resume with {saved.ranks} ranks" in str(caught.value)


def test_the_record_says_who_saved(tmp_path):
    assert saved_version_and_ranks(tmp_path) is None
    assert saved_sharding(tmp_path) is None
    (tmp_path / RECORD).write_text(json.dumps({"FSDP_version": 2, "world_size": 8, "new": 1}))
    assert saved_version_and_ranks(tmp_path) == (2, 8)
    for damaged in ("[]", "{", '{"FSDP_version": 2}', '{"FSDP_version": 2, "world_size": null}'):
        (tmp_path / RECORD).write_text(damaged)
        with pytest.raises(UserError, match=re.escape(str(tmp_path / RECORD))):
            saved_version_and_ranks(tmp_path)


class Harmful:
    def __reduce__(self):
        return print, ("executed",)


def test_objects_are_not_unpickled(tmp_path, capsys):
    path = tmp_path / "optim_world_size_2_rank_0.pt"
    for value in (Harmful(), np.array([Harmful()], dtype=object)):
        torch.save({"w": torch.ones(2), "x": value}, path)
        with pytest.raises(UserError, match=r"optim_world_size_2_rank_0\.pt.*resume with"):
            read_tensors(path)
    path.write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(UserError, match=re.escape(str(path))):
        read_tensors(path)
    assert capsys.readouterr().out == ""


def test_random_states_are_read(tmp_path):
    path = tmp_path / "extra.pt"
    torch.save({"numpy": np.random.RandomState(3).get_state(), "cpu": torch.get_rng_state()}, path)
    found = read_tensors(path)
    assert np.array_equal(found["numpy"][1], np.random.RandomState(3).get_state()[1])
    path.write_bytes(path.read_bytes()[:300])
    for damaged in (path, tmp_path / "none.pt"):
        with pytest.raises(UserError, match=re.escape(str(damaged))):
            read_tensors(damaged)

"""Fields of a batch are those that the rows had, in every way in which it reaches a worker."""

import pickle

import pytest
import torch
import verl.trainer.ppo.padding_utils as padding
import verl.utils.tensordict_utils as tensordicts
from tensordict import TensorDict
from transfer_queue.storage.managers.simple_storage_manager import AsyncSimpleStorageManager

from docagent_rl.patches import compact_rows
from docagent_rl.training.compact_positions import compact, expand_positions
from docagent_rl.training.trainer.passes import Pass

RAGGED = [(4, 3), (4, 9), (4, 5), (4, 2)]
EQUAL = [(4, 6), (4, 6)]
TEXTS = [(3,), (9,)]
EQUAL_TEXTS = [(7,), (7,)]
SHAPES = [RAGGED, EQUAL, [(4, 1)], TEXTS, EQUAL_TEXTS]


def drawn(shapes):
    rows = [torch.randint(9, shape) for shape in shapes]
    for row in rows:
        row[..., 0] = 0
    return rows


def batch(rows):
    """Return rows as TransferQueue hands them over."""
    rows = list(rows)
    values = AsyncSimpleStorageManager._pack_field_values(rows)
    return TensorDict({"position_ids": values}, batch_size=len(rows))


def read(data, chunks=1):
    parts = tensordicts.chunk_tensordict(data, chunks)
    return [row for part in parts for row in part["position_ids"].unbind()]


def equal(found, rows):
    assert [row.dtype for row in found] == [torch.int64] * len(rows)
    assert all(torch.equal(a, b) for a, b in zip(found, rows, strict=True))


def test_upstream_still_leaves_rows_as_they_are_stored():
    patched = tensordicts.maybe_fix_3d_position_ids.__wrapped__
    data = batch(map(compact, drawn(RAGGED)))
    patched.__wrapped__(data)  # else the patch is not needed
    assert data["position_ids"].dim() == 2


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("sent", [False, True])
def test_positions_come_out_as_they_went_in(shapes, sent):
    rows = drawn(shapes)
    data = batch(map(compact, rows))
    if sent:
        data = pickle.loads(pickle.dumps(data.consolidate()))
    for _ in range(2):  # verl calls it for a batch, and again for each mini-batch
        tensordicts.maybe_fix_3d_position_ids(data)
        for chunks in {1, len(rows)}:
            equal(read(data, chunks), rows)
    whole = batch(rows)
    tensordicts.maybe_fix_3d_position_ids(whole)
    found, expected = data["position_ids"], whole["position_ids"]
    assert found.dim() == expected.dim()
    assert torch.equal(found.values(), expected.values())
    assert torch.equal(found.offsets(), expected.offsets())


@pytest.mark.parametrize("shapes", SHAPES)
def test_rows_that_were_not_stored_here_may_be_among_them(shapes):
    """A checkpoint of an earlier version contains a queue with whole position ids."""
    rows = drawn(shapes)
    data = batch([row if n % 2 else compact(row) for n, row in enumerate(rows)])
    tensordicts.maybe_fix_3d_position_ids(data)
    equal(read(data), rows)


def test_batches_without_positions_are_left_alone():
    data = TensorDict({"input_ids": torch.zeros(2, 3)}, batch_size=2)
    tensordicts.maybe_fix_3d_position_ids(data)
    assert set(data.keys()) == {"input_ids"}


@pytest.mark.parametrize("shape", [(4, 9), (9,)])
def test_empty_rows_have_positions_of_the_same_kind(shape):
    """verl fills up a batch that cannot be divided among the ranks."""
    whole = drawn([shape])[0]
    made = [
        padding.construct_minimal_padding_template({"position_ids": source}, {}, 0)[0]
        for source in (whole, compact(whole))
    ]
    first, second = (each["position_ids"] for each in made)
    equal([expand_positions(second)], [first])
    assert first.shape[:-1] == shape[:-1]


def test_upstream_still_makes_empty_rows_from_what_is_stored():
    build = padding.build_padding_position_ids.__wrapped__
    made = build(compact(drawn([(4, 9)])[0]), torch.ones(5))
    assert made.tolist() == [0, 1, 2, 3, 4]  # else the patch is not needed


def fields(shapes):
    """Return fields of rows, and those of them that a pass fetches."""
    prompts, responses = drawn(shapes), drawn([(n + 1,) for (n,) in shapes])
    rows = {
        "prompts": prompts,
        "responses": responses,
        "response_mask": [row % 2 for row in responses],
        "position_ids": [torch.arange(2 * n + 1) for (n,) in shapes],
        "input_ids": [torch.cat(pair) for pair in zip(prompts, responses, strict=True)],
    }
    rows["loss_mask"] = rows["response_mask"]
    fetched = {name for name in rows if name not in Pass.INFER.value}
    whole, found = (
        TensorDict(
            {n: AsyncSimpleStorageManager._pack_field_values(rows[n]) for n in names},
            batch_size=len(shapes),
        )
        for names in (rows, fetched)
    )
    return whole, found


@pytest.mark.parametrize("shapes", [TEXTS, EQUAL_TEXTS])
def test_fields_that_a_pass_does_not_fetch_are_made(shapes):
    whole, found = fields(shapes)
    assert set(whole.keys()) - set(found.keys()) == {"input_ids", "loss_mask"}
    for data in (whole, found):
        tensordicts.maybe_fix_3d_position_ids(data)
    assert set(found.keys()) == set(whole.keys())
    for name in whole.keys():  # noqa: SIM118  (a TensorDict iterates over its rows)
        assert found[name].dtype == whole[name].dtype
        assert torch.equal(found[name].values(), whole[name].values())
        assert torch.equal(found[name].offsets(), whole[name].offsets())


def test_both_modules_are_patched():
    patch = compact_rows.PATCH
    assert patch.modules == (tensordicts.__name__, padding.__name__)

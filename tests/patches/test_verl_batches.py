"""verl's functions for batches: positions, patches of images, advantages, log-probs and resumed
loaders.
"""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import verl.utils.model as models
import verl.utils.tensordict_utils as tensordicts
import verl.utils.torch_functional as functional
from PIL import Image
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorData
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from verl import DataProto
from verl.trainer.ppo.core_algos import AdvantageEstimator
from verl.trainer.ppo.v1 import utils as trainers
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.checkpoint.checkpoint_handler import CheckpointHandler
from verl.workers.engine.fsdp import transformer_impl

from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef
from docagent_rl.rollout.images import EncodedImage, join_patches
from docagent_rl.rollout.patches import PATCHES
from docagent_rl.training.hardware import flash_attn_version

without_flash_attn = pytest.mark.skipif(
    flash_attn_version() is not None, reason="flash-attn is installed"
)


def positions(lengths: list[int]) -> tuple[TensorDict, list[torch.Tensor]]:
    """Return positions as TransferQueue hands them over, and their rows."""
    rows = [torch.randint(99, (4, length)) for length in lengths]
    nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    return TensorDict({"position_ids": nested}, batch_size=len(rows)), rows


def read(data: TensorDict, chunks: int) -> list[torch.Tensor]:
    parts = tensordicts.chunk_tensordict(data, chunks)
    return [row for part in parts for row in part["position_ids"].unbind()]


def test_upstream_still_fails_for_positions_of_rows_of_one_length():
    data, _ = positions([6, 6])
    tensordicts.maybe_fix_3d_position_ids.__wrapped__(data)
    with pytest.raises(RuntimeError):
        read(data, 2)


@pytest.mark.parametrize("lengths", [[6, 6], [6], [3, 9, 3, 9], [1, 1]])
@pytest.mark.parametrize("sent", [False, True])
def test_positions_come_out_as_they_went_in(lengths, sent):
    data, rows = positions(lengths)
    if sent:
        data = pickle.loads(pickle.dumps(data.consolidate()))
    for _ in range(2):
        tensordicts.maybe_fix_3d_position_ids(data)
        for chunks in {1, len(lengths)}:
            assert all(torch.equal(a, b) for a, b in zip(read(data, chunks), rows, strict=True))


@pytest.fixture
def pictures():
    return [Image.new("RGB", (140, 112), (40 * n, 10, 200)) for n in range(3)]


@pytest.fixture
def rows(processor, pictures):
    """Return rows with the first two images, without an image, and with the third image."""
    refs = [
        ImageRef(PageRef("doc", n + 1), f"h{n}", (0, 0, 140, 112), (140, 112)) for n in range(3)
    ]
    made = [
        EncodedImage.make(r, p, processor.image_processor)
        for r, p in zip(refs, pictures, strict=True)
    ]
    return [join_patches(made[:2]), {}, NonTensorData(join_patches(made[2:]))]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 1, 1, 2)])
def test_the_training_engine_gets_the_processors_features(rows, pictures, processor, order):
    assert PATCHES in models.extract_multi_modal_inputs.__wrapped__(
        rows
    )  # else the patch is not needed
    if len(order) == 4:
        floats = processor.image_processor(images=pictures[1:2], return_tensors="pt")
        rows = [rows[0], NonTensorData(dict(floats)), {}, rows[2]]
    whole = processor.image_processor(images=[pictures[n] for n in order], return_tensors="pt")
    made = transformer_impl.extract_multi_modal_inputs(rows)
    assert made.keys() == whole.keys()
    assert all(torch.equal(made[name], value) for name, value in whole.items())


REJECTED = [[1, 1], [0, 0], [1, 0], [1, 1]]


def advantages(function, mask: list[list[int]], values=None, **options) -> list[list[float]]:
    """Return the advantages of two trajectories of two rows, with rewards 1 and 0 on their last
    rows.
    """
    rewards = torch.zeros(4, 2)
    rewards[1, 1] = 1.0
    columns = {"token_level_rewards": rewards, "response_mask": torch.tensor(mask)}
    data = DataProto.from_dict(columns | ({} if values is None else {"values": values}))
    data.non_tensor_batch["uid"] = np.array(["q"] * 4, dtype=object)
    options = {"adv_estimator": AdvantageEstimator.GRPO, "norm_adv_by_std_in_grpo": False} | options
    found = function(data, batch_keys=["q_0_0", "q_0_1", "q_1_0", "q_1_1"], **options)
    assert found.batch["response_mask"].tolist() == mask
    return found.batch["advantages"].tolist()


def test_rows_keep_the_advantage_of_a_trajectory_whose_last_row_was_rejected():
    function = trainers.compute_advantage_for_multi_trajectories
    lost = advantages(function.__wrapped__, REJECTED)  # else the patch is not needed
    assert lost == [[0, 0], [0, 0], [-0.5, 0], [-0.5, -0.5]]
    assert advantages(function, REJECTED) == [[0.5, 0.5], [0, 0], [-0.5, 0], [-0.5, -0.5]]


class Count(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls += 1
        return function(*args, **(kwargs or {}))


def operations(function, tokens: int, dtype) -> int:
    with Count() as count:
        function(torch.zeros(tokens, 7, dtype=dtype), torch.zeros(tokens, dtype=torch.long))
    return count.calls


@without_flash_attn
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_operations_of_log_probs_do_not_grow_with_the_tokens(dtype):
    stock = functional.logprobs_from_logits.__wrapped__
    assert (
        operations(stock, 64, dtype) > operations(stock, 8, dtype) + 50
    )  # else the patch is not needed
    assert (
        len({operations(functional.logprobs_from_logits, tokens, dtype) for tokens in (8, 64)}) == 1
    )


@without_flash_attn
def test_response_of_packed_rows_is_cut_out():
    ids = torch.tensor([[0, 3, 4, 5, 6], [7, 8, 2, 1, 0]])
    mask = torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]])
    logits = torch.randn(2, 5, 10)
    found = functional.log_probs_from_logits_response_rmpad(ids, mask, logits[mask == 1], 2)
    expected = logits.log_softmax(-1)[:, 2:4].gather(2, ids[:, 3:, None])[..., 0]
    torch.testing.assert_close(found[mask[:, 3:] == 1], expected[mask[:, 3:] == 1])


BATCHES = 4
"""Batches in an epoch of twelve rows."""


def loader() -> StatefulDataLoader:
    sampler = DistributedSampler(range(12), num_replicas=1, rank=0, shuffle=True, drop_last=True)
    return StatefulDataLoader(list(range(12)), batch_size=3, sampler=sampler, drop_last=True)


def batches(found: StatefulDataLoader, start: int, most: int) -> dict[int, list[int]]:
    """Return the batches that the trainer's two loops hand out after `start` steps, by step."""
    step, given = start, {}
    for epoch in range(start // BATCHES, 3):
        found.sampler.set_epoch(epoch)
        for batch in found:
            step += 1
            given[step] = batch.tolist()
            if step == most:
                return given
    return given


def resumed(load, folder, step: int) -> dict[int, list[int]]:
    """Return the batches after a stop at a step, with its checkpoint loaded as the handler loads
    it.
    """
    first, second = loader(), loader()
    batches(first, 0, step)
    path = folder / f"global_step_{step}"
    path.mkdir()
    torch.save(first.state_dict(), path / "data_0.pt")
    load(SimpleNamespace(train_dataloader=second, dp_rank=0, rank=0), str(path))
    return batches(second, step, 3 * BATCHES)


def test_upstream_still_leaves_an_epoch_out(tmp_path):
    original = CheckpointHandler._load_dataloader_state.__wrapped__
    assert len(resumed(original, tmp_path, BATCHES)) == BATCHES


@pytest.mark.parametrize("step", [1, BATCHES - 1, BATCHES, BATCHES + 1, 2 * BATCHES])
def test_a_resumed_run_sees_the_batches_of_one_that_was_not_stopped(tmp_path, step):
    whole = batches(loader(), 0, 3 * BATCHES)
    assert len(whole) == 3 * BATCHES
    found = resumed(CheckpointHandler._load_dataloader_state, tmp_path, step)
    assert found == {number: batch for number, batch in whole.items() if number > step}


class StopPassError(Exception):
    """An exception that ends a pass where its results would be stored."""


def marks_of_a_reference_pass(function) -> list[bool]:
    """Return whether a batch is marked as one without adapters, while the reference reads it and
    afterwards.
    """
    found = []

    def compute_log_prob(batch):
        found.append("no_lora_adapter" in batch.extra_info)
        raise StopPassError

    rollout = SimpleNamespace(rollout=SimpleNamespace(temperature=1.0))
    trainer = SimpleNamespace(
        ref_in_actor=True,
        config=SimpleNamespace(actor_rollout_ref=rollout),
        actor_rollout_wg=SimpleNamespace(compute_log_prob=compute_log_prob),
    )
    batch = SimpleNamespace(extra_info={})
    with pytest.raises(StopPassError):
        function(trainer, batch, {})
    return [*found, "no_lora_adapter" in batch.extra_info]


def test_upstream_still_hands_the_mark_of_the_reference_to_the_critic():
    assert marks_of_a_reference_pass(PPOTrainer._compute_ref_log_prob.__wrapped__) == [True, True]


def test_the_mark_of_the_reference_is_taken_back():
    assert marks_of_a_reference_pass(PPOTrainer._compute_ref_log_prob) == [True, False]

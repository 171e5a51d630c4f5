from __future__ import annotations

import types

import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader
from transformers import Qwen2_5_VLModel

from docagent_rl.errors import UserError
from docagent_rl.rollout.images import join_features
from docagent_rl.sft import dataset as dataset_module
from docagent_rl.sft.dataset import LedgerSftDataset, position_ids
from docagent_rl.sft.files import SftFile
from docagent_rl.sft.rows import sft_rows, write_sft
from docagent_rl.tiny.model import tiny_config
from tests.examples.learning.small_task import SmallTask


@pytest.fixture(scope="module")
def task(tmp_path_factory, processor):
    return SmallTask(tmp_path_factory.mktemp("task"), processor)


@pytest.fixture(scope="module")
def bound(processor):
    """The processor as verl loads it: with the model's rule for positions."""
    processor.config = tiny_config(processor.tokenizer)
    processor.get_rope_index = types.MethodType(Qwen2_5_VLModel.get_rope_index, processor)
    processor.get_vision_position_ids = types.MethodType(Qwen2_5_VLModel.get_vision_position_ids, processor)
    return processor


@pytest.fixture(scope="module")
def sessions(task):
    return [task.play(number=0), task.play(lambda _: "<answer>5</answer>", number=1)]


@pytest.fixture(scope="module")
def file(task, sessions, tmp_path_factory):
    rows = [row for s in sessions for row in sft_rows(s.trajectory, s.ledgers)]
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    return str(write_sft(rows, path, task.processor.tokenizer))


@pytest.fixture(scope="module")
def dataset(task, bound, file):
    return LedgerSftDataset(file, bound.tokenizer, {"store": str(task.paths.store)}, bound)


def test_items_hold_what_the_training_engine_gets_in_a_rollout(dataset, sessions):
    ledger, item = sessions[0].ledgers[0].row(), dataset[0]
    assert item["input_ids"].tolist() == ledger.prompt_ids + ledger.response_ids
    assert item["loss_mask"].tolist() == [0] * len(ledger.prompt_ids) + ledger.response_mask
    features = join_features(ledger.images)
    assert item["multi_modal_inputs"].keys() == features.keys()
    for name, value in features.items():
        torch.testing.assert_close(item["multi_modal_inputs"][name], value, rtol=0, atol=0)


def test_a_row_without_images_has_the_same_keys(dataset):
    assert dataset[1]["multi_modal_inputs"] == {}
    assert dataset[0].keys() == dataset[1].keys()
    assert dataset[1]["position_ids"].shape == (4, len(dataset[1]["input_ids"]))


def test_positions_by_hand(bound):
    image = bound.image_token_id
    start = bound.tokenizer.convert_tokens_to_ids("<|vision_start|>")
    ids = torch.tensor([5, 6, start, image, image, image, image, 7, 8])
    positions = position_ids(ids, {"image_grid_thw": torch.tensor([[1, 4, 4]])}, bound)
    # four visual tokens, two by two, from position 3 on; text goes on behind the largest
    assert positions.tolist() == [
        [0, 1, 2, 3, 4, 5, 6, 7, 8],
        [0, 1, 2, 3, 3, 3, 3, 5, 6],
        [0, 1, 2, 3, 3, 4, 4, 5, 6],
        [0, 1, 2, 3, 4, 3, 4, 5, 6],
    ]


def test_a_text_model_has_one_position_a_token():
    assert position_ids(torch.tensor([4, 4, 4]), {}, None).tolist() == [0, 1, 2]


def test_equal_images_are_preprocessed_once(task, bound, file, monkeypatch):
    calls = []
    kind = type(bound.image_processor)
    original = kind.__call__

    def counting(*args, **kwargs):
        calls.append(1)
        return original(*args, **kwargs)

    dataset = LedgerSftDataset([file, file], bound.tokenizer, {"store": str(task.paths.store)}, bound)
    monkeypatch.setattr(kind, "__call__", counting)
    for index in (0, 2, 0):
        dataset[index]
    assert len(dataset) == 4
    assert len(calls) == 1


def test_a_limit_on_the_number_of_rows(task, bound, file):
    config = {"store": str(task.paths.store)}
    assert len(LedgerSftDataset(file, bound.tokenizer, config, bound, max_samples=1)) == 1


def test_settings_that_cannot_work_are_refused(task, bound, file):
    store = {"store": str(task.paths.store)}
    with pytest.raises(UserError, match=r"set \+data\.store"):
        LedgerSftDataset(file, bound.tokenizer, {}, bound)
    with pytest.raises(UserError, match=r"data\.max_length.*\b20\b"):
        LedgerSftDataset(file, bound.tokenizer, {**store, "max_length": 20}, bound)
    with pytest.raises(UserError, match=r"data\.pad_mode=right"):
        LedgerSftDataset(file, bound.tokenizer, {**store, "pad_mode": "right"}, bound)


def test_rows_stay_in_the_file_until_they_are_drawn(task, bound, file, monkeypatch):
    read = []
    original = SftFile.row
    monkeypatch.setattr(SftFile, "row", lambda self, index: read.append(index) or original(self, index))
    dataset = LedgerSftDataset([file, file], bound.tokenizer, {"store": str(task.paths.store)}, bound)
    assert read == []
    dataset[3]
    assert read == [1]


def test_images_that_are_kept_are_bounded_by_their_bytes(task, bound, file, monkeypatch):
    monkeypatch.setattr(dataset_module, "KEPT_BYTES", 1)
    dataset = LedgerSftDataset(file, bound.tokenizer, {"store": str(task.paths.store)}, bound)
    first = dataset[0]["multi_modal_inputs"]["pixel_values"]
    torch.testing.assert_close(dataset[0]["multi_modal_inputs"]["pixel_values"], first, rtol=0, atol=0)


@pytest.mark.slow
def test_workers_of_a_data_loader_read_the_same_rows(task, bound, file):
    """Recipes have four on GPUs: forks, each with images of its own."""
    dataset = LedgerSftDataset([file] * 4, bound.tokenizer, {"store": str(task.paths.store)}, bound)
    expected = [dataset[index] for index in range(len(dataset))]
    loader = StatefulDataLoader(dataset, batch_size=1, num_workers=2, collate_fn=lambda items: items[0])
    for item, other in zip(expected, loader, strict=True):
        assert torch.equal(item["input_ids"], other["input_ids"])
        for name, value in item["multi_modal_inputs"].items():
            assert torch.equal(value, other["multi_modal_inputs"][name])

from __future__ import annotations

import types

import pytest
import torch
from transformers import Qwen2_5_VLModel

from docagent_rl.data.sft import sft_rows, write_sft
from docagent_rl.data.sft_dataset import LedgerSftDataset, position_ids
from docagent_rl.errors import UserError
from docagent_rl.rollout.images import join_features
from docagent_rl.testing.model import tiny_config
from tests.learning.plates import Plates


@pytest.fixture(scope="module")
def plates(tmp_path_factory, processor):
    return Plates(tmp_path_factory.mktemp("plates"), processor)


@pytest.fixture(scope="module")
def bound(processor):
    """The processor as verl loads it: with the model's rule for positions."""
    processor.config = tiny_config(processor.tokenizer)
    processor.get_rope_index = types.MethodType(Qwen2_5_VLModel.get_rope_index, processor)
    processor.get_vision_position_ids = types.MethodType(Qwen2_5_VLModel.get_vision_position_ids, processor)
    return processor


@pytest.fixture(scope="module")
def sessions(plates):
    return [plates.play(number=0), plates.play(lambda _: "<answer>5</answer>", number=1)]


@pytest.fixture(scope="module")
def file(plates, sessions, tmp_path_factory):
    rows = [row for s in sessions for row in sft_rows(s.trajectory, s.ledgers)]
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    return str(write_sft(rows, path, plates.processor.tokenizer))


@pytest.fixture(scope="module")
def dataset(plates, bound, file):
    return LedgerSftDataset(file, bound.tokenizer, {"store": str(plates.paths.store)}, bound)


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


def test_equal_images_are_preprocessed_once(plates, bound, file, monkeypatch):
    calls = []
    original = bound.image_processor

    def counting(*args, **kwargs):
        calls.append(1)
        return original(*args, **kwargs)

    monkeypatch.setattr(bound, "image_processor", counting)
    dataset = LedgerSftDataset([file, file], bound.tokenizer, {"store": str(plates.paths.store)}, bound)
    for index in (0, 2, 0):
        dataset[index]
    assert len(dataset) == 4
    assert len(calls) == 1


def test_a_limit_on_the_number_of_rows(plates, bound, file):
    config = {"store": str(plates.paths.store)}
    assert len(LedgerSftDataset(file, bound.tokenizer, config, bound, max_samples=1)) == 1


def test_settings_that_cannot_work_are_refused(plates, bound, file):
    store = {"store": str(plates.paths.store)}
    with pytest.raises(UserError, match=r"set \+data\.store"):
        LedgerSftDataset(file, bound.tokenizer, {}, bound)
    with pytest.raises(UserError, match=r"data\.max_length is 20"):
        LedgerSftDataset(file, bound.tokenizer, {**store, "max_length": 20}, bound)
    with pytest.raises(UserError, match=r"data\.pad_mode=right"):
        LedgerSftDataset(file, bound.tokenizer, {**store, "pad_mode": "right"}, bound)

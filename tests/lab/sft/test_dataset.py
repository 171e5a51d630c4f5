"""Rows as the training engine gets them, and their pictures."""

import json
import types
import unicodedata

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2_5_VLModel

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.images import ImageRef, ImageSheet, SheetLabel, Tile
from docagent_rl.lab.sft.dataset import LedgerSftDataset, position_ids
from docagent_rl.lab.sft.ledgers import read_picture
from docagent_rl.lab.sft.rows import sft_rows, write_sft
from docagent_rl.lab.tiny.shapes import tiny_config
from docagent_rl.rollout.images import join_features
from docagent_rl.rollout.patches import PatchFormat


@pytest.fixture(scope="module")
def bound(processor):
    """Return the processor as verl loads it, with the model's rule for positions."""
    processor.config = tiny_config(processor.tokenizer)
    processor.get_rope_index = types.MethodType(Qwen2_5_VLModel.get_rope_index, processor)
    processor.get_vision_position_ids = types.MethodType(
        Qwen2_5_VLModel.get_vision_position_ids, processor
    )
    return processor


@pytest.fixture(scope="module")
def make(task, played, bound, tmp_path_factory):
    """Return a data set of a file repeated a number of times: one row with an image, and one
    without.
    """
    trajectories = [played, task.play(lambda _: "<answer>5</answer>", number=1)]
    rows = [row for s in trajectories for row in sft_rows(s.trajectory, s.ledgers)]
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    file = str(write_sft(rows, path, task.processor.tokenizer))

    def made(times=1, max_samples=-1, **config):
        config = {"store": str(task.paths.store), **config}
        config = {name: value for name, value in config.items() if value is not None}
        return LedgerSftDataset([file] * times, bound.tokenizer, config, bound, max_samples)

    return made


def test_items_hold_what_the_training_engine_gets_in_a_rollout(make, played):
    ledger, (item, blind) = played.ledgers[0].row(), make()
    assert len(make(max_samples=1)) == 1
    assert item["input_ids"].tolist() == ledger.prompt_ids + ledger.response_ids
    assert item["loss_mask"].tolist() == [0] * len(ledger.prompt_ids) + ledger.response_mask
    features = join_features(ledger.images)
    assert item["multi_modal_inputs"].keys() == features.keys()
    for name, value in features.items():
        torch.testing.assert_close(item["multi_modal_inputs"][name], value, rtol=0, atol=0)
    # a row without images has the same keys
    assert blind["multi_modal_inputs"] == {}
    assert blind.keys() == item.keys()
    assert blind["position_ids"].shape == (4, len(blind["input_ids"]))


def test_images_of_a_processor_without_patches_are_read_whole(make, monkeypatch):
    patches = make()[0]["multi_modal_inputs"]
    monkeypatch.setattr(PatchFormat, "of", classmethod(lambda *_: None))
    whole = make()[0]["multi_modal_inputs"]
    assert whole.keys() == patches.keys() >= {"pixel_values"}
    assert all(torch.allclose(whole[name], value, atol=1e-5) for name, value in patches.items())


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
    # a text model has one position a token
    assert position_ids(torch.tensor([4, 4, 4]), {}, None).tolist() == [0, 1, 2]


def test_images_need_a_store(make):
    with pytest.raises(UserError, match=r"\+data\.store"):
        make(store=None)


letters = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1)
names = letters.map(lambda text: unicodedata.normalize("NFC", text))  # as ids are read
references = st.builds(ImageRef, page=st.builds(PageRef, names, st.integers(1, 500)), resample=...)
tiles = st.lists(st.builds(Tile, references), max_size=3).map(tuple)
labels = st.lists(st.builds(SheetLabel, font_px=...), max_size=2).map(tuple)
sheets = st.builds(ImageSheet, tiles=tiles, labels=labels, fills=..., background=...)


@settings(max_examples=50)
@given(references | sheets)
def test_every_picture_survives_json(picture):
    again = read_picture(json.loads(json.dumps(picture.to_dict())))
    assert again == picture
    assert again.key == picture.key


@pytest.mark.parametrize(
    "change",
    [
        {"size": [1]},
        {"raster": None},
        {"resample": "nearest"},
        {"page": "no number"},
        {"size": ["a", 2]},
    ],
)
def test_what_is_no_picture_is_refused(change):
    good = ImageRef(PageRef("d", 1), "0" * 64, (0, 0, 1, 1), (28, 28)).to_dict()
    with pytest.raises(UserError):
        read_picture({**good, **change})
    with pytest.raises(UserError, match="page_hash"):
        read_picture({key: value for key, value in good.items() if key != "page_hash"})

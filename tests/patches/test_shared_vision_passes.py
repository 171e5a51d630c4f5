"""verl's engines join a page for each row that shows it; ours announce it once."""

from types import SimpleNamespace

import pytest
import torch
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from docagent_rl.patches.shared_vision_passes import METRICS, TOWER, _with_counts
from docagent_rl.training.vision.features import FeatureStore
from docagent_rl.training.vision.row_images import PIXELS
from docagent_rl.training.vision.tower import SharedTower
from tests.training.vision.shared_engine import batches

PAGES = ((2, 6), (), (6,), (2,))
PLACES = 4
PATCHES = 16


@pytest.fixture(scope="module")
def data():
    """Return a batch with patches, and one with features."""
    return batches(60, PAGES)


def prepared(function, engine, batch):
    inputs, _ = function(engine, batch)
    return inputs


def engine(**more):
    return SimpleNamespace(pad_to_length=False, use_ulysses_sp=False, **more)


def padded(batch):
    batch = batch.copy()
    tu.assign_non_tensor(batch, use_remove_padding=False)
    return batch


def test_upstream_still_joins_a_page_for_each_row(data):
    upstream = FSDPEngineWithLMHead.prepare_model_inputs.__wrapped__
    inputs = prepared(upstream, engine(), padded(data[1]))
    assert len(inputs[PIXELS]) == PLACES * PATCHES


def test_images_are_announced_in_the_order_of_the_rows(data):
    tower = SharedTower(torch.nn.Identity(), FeatureStore(0), keeps=False)
    with_tower = engine(**{TOWER: tower})
    inputs = prepared(FSDPEngineWithLMHead.prepare_model_inputs, with_tower, padded(data[0]))
    assert inputs[PIXELS].numel() == 0
    assert inputs["image_grid_thw"].tolist() == [[1, 4, 4]] * PLACES
    images = tower._images
    assert len(images.distinct) == 2
    a, b = images.distinct
    assert images.keys == (a, b, b, a)


def test_rows_of_other_agent_loops_are_passed_on(data):
    tower = SharedTower(torch.nn.Identity(), FeatureStore(0), keeps=False)
    prepared(FSDPEngineWithLMHead.prepare_model_inputs, engine(**{TOWER: tower}), padded(data[0]))
    inputs = prepared(
        FSDPEngineWithLMHead.prepare_model_inputs, engine(**{TOWER: tower}), padded(data[1])
    )
    assert len(inputs[PIXELS]) == PLACES * PATCHES
    assert tower._images is None


def test_an_engine_without_such_a_tower_gets_its_features(data):
    inputs = prepared(FSDPEngineWithLMHead.prepare_model_inputs, engine(), padded(data[0]))
    assert len(inputs[PIXELS]) == PLACES * PATCHES


def test_only_updates_by_rl_report_images(data):
    """The trainer for SFT writes an update's metrics as JSON, without reducing them."""
    tower = SharedTower(torch.nn.Identity(), FeatureStore(0), keeps=False)
    output = {"metrics": {"loss": [0.5]}}
    rows = data[0].copy()
    assert "response_mask" in rows
    found = _with_counts(engine(**{TOWER: tower}), rows, output)
    assert found["metrics"].keys() == {"loss", *METRICS}
    del rows["response_mask"]
    assert _with_counts(engine(**{TOWER: tower}), rows, output) == output

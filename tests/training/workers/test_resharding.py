"""A checkpoint of FSDP2 goes on with another number of ranks, to the bit."""

import random

import numpy as np
import pytest
import torch

from docagent_rl.training.workers.resharding import seed_rank
from tests.training.ranks import last_report
from tests.training.workers.resharding_engine import MEETING, VARIANTS

ORDER = (2, 1, 3, 2)
"""Ranks of the programs, each of which loads what the programs before it have saved."""
CHANGES = [
    (name, *change)
    for name in VARIANTS
    for change in ((2, 1), (1, 2), (2, 3), (3, 2))
    if name != "frozen" or 3 not in change
]
"""Variants, with the ranks that saved and those that load; four rows with images are not shared by
three ranks.
"""
TOLERANCE = 1e-3
"""The largest difference, relative to a tensor's largest entry, that another order of a sum makes
in three updates. AdamW divides by the size of a gradient, so that it shows where that is nearly
zero; a moment in the wrong place moves an entry by a learning rate of .01.
"""


def test_ranks_get_seeds_of_their_own_from_what_rank_0_saved():
    torch.manual_seed(3)
    state = torch.get_rng_state()

    def drawn(rank: int, ranks: int) -> tuple[float, float, float]:
        seed_rank(state, rank, ranks)
        return float(torch.rand(())), float(np.random.rand()), random.random()

    places = [(rank, ranks) for ranks in (1, 2, 3) for rank in range(ranks)]
    found = [drawn(*place) for place in places]
    assert found == [drawn(*place) for place in places]
    for numbers in zip(*found, strict=True):
        assert len(set(numbers)) == len(places)


@pytest.fixture(scope="module")
def reports(tmp_path_factory, warm_python) -> dict[tuple[str, int, int], dict]:
    """Return what was found, by variant, ranks that saved and ranks that loaded."""
    root = tmp_path_factory.mktemp("ranks")
    found = {}
    for number, ranks in enumerate(ORDER):
        folder = root / f"{MEETING}{ranks}_{number}"
        folder.mkdir()
        report = last_report(
            warm_python, "tests.training.workers.resharding_engine", folder, ranks=ranks
        )
        for key, value in report.items():
            name, _, source = key.partition(" from ")
            saved = int(source.removeprefix(MEETING).partition("_")[0])
            found[name, saved, ranks] = value
    return found


@pytest.mark.slow(first=True)
@pytest.mark.parametrize(("name", "saved", "now"), CHANGES)
def test_everything_is_loaded_to_the_bit_and_the_next_update_is_the_same(reports, name, saved, now):
    found = reports[name, saved, now]
    assert found["moments"] > 0
    assert found["differing"] == []
    assert found["plain"]
    assert found["seeded"]
    resumed, unbroken = found["metrics"]
    assert resumed == pytest.approx(unbroken, rel=1e-4, abs=1e-6)
    assert found["moved"] > 1e-3
    assert found["apart"] < TOLERANCE


@pytest.mark.slow
def test_upstream_still_looks_for_files_of_its_own_number_of_ranks(reports):
    """If this test fails, the patch `checkpoint_of_other_ranks` is no longer needed."""
    assert "_world_size_1_rank_0.pt" in reports["actor", 2, 1]["upstream"]


@pytest.mark.slow
def test_other_shards_and_other_models_are_refused(reports):
    refused = reports["actor", 1, 2]["refused"]
    assert "has 2 x 1 ranks with HSDP" in refused["hsdp"]
    assert "the checkpoint is of another model" in refused["lora"]

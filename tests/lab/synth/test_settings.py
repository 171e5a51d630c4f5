from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.lab.synth.settings import Difficulty, SynthSettings
from docagent_rl.samples.fields import Split


@given(st.integers(1, 500), st.floats(0, 0.5), st.floats(0, 0.5))
def test_splits_hold_all_documents(documents, val, test):
    sizes = SynthSettings(documents=documents, val_fraction=val, test_fraction=test).split_sizes()
    assert sum(sizes.values()) == documents
    assert min(sizes.values()) >= 0
    assert abs(sizes[Split.VAL] - val * documents) <= 1
    if documents >= 3:
        assert (sizes[Split.VAL] > 0, sizes[Split.TEST] > 0) == (val > 0, test > 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"documents": 0},
        {"questions_per_document": 0},
        {"difficulties": ()},
        {"val_fraction": 0.6, "test_fraction": 0.6},
        {"val_fraction": -0.1},
        {"test_fraction": float("nan")},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        SynthSettings(**wrong)


def test_every_setting_is_in_the_fingerprint():
    settings = SynthSettings()
    changes = {
        "documents": 25,
        "seed": 1,
        "questions_per_document": 7,
        "difficulties": (Difficulty.EASY,),
        "val_fraction": 0.2,
        "test_fraction": 0.2,
    }
    assert set(changes) == {field.name for field in dataclasses.fields(settings)}
    changed = [dataclasses.replace(settings, **{name: value}) for name, value in changes.items()]
    assert len({str(each.fingerprint()) for each in (settings, *changed)}) == len(changes) + 1

from __future__ import annotations

import pytest
import torch

from docagent_rl.training.losses.reference import ReferenceStates, row_keys
from tests.training.losses.batches import batch

CPU = torch.device("cpu")


def test_rows_come_back_in_the_order_asked_for():
    states = ReferenceStates()
    hidden = [torch.full((n, 3), float(n)) for n in (2, 0, 1)]
    states.put([b"a", b"b", b"c"], hidden)
    assert len(states) == 3
    assert states.get([b"c", b"b", b"a", b"c"], CPU)[:, 0].tolist() == [1, 2, 2, 1]
    states.clear()
    assert len(states) == 0
    with pytest.raises(RuntimeError, match="2 of 2"):
        states.get([b"a", b"b"], CPU)


def test_keys_know_tokens_and_log_probs():
    data = batch(["soi", "soi", "sois"], [2, 2, 2])
    log_probs = [torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([-1.0, -2.0, -3.5]), torch.full((4,), -1.0)]
    keys = row_keys(data, log_probs)
    # equal tokens, other images
    assert len(set(keys)) == 3
    assert row_keys(data, [log_probs[0], log_probs[0], log_probs[2]])[1] == keys[0]
    # integers and floats of other widths are the same row
    data["input_ids"] = data["input_ids"].int()
    assert row_keys(data, [row.double() for row in log_probs]) == keys

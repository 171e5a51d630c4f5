"""The benchmark's rows are those of real trajectories, and both ways of finishing them work."""

import pytest
import transfer_queue

from benchmarks import event_loop
from docagent_rl.training.compact_positions import expand_positions, is_compact


@pytest.mark.parametrize("kind", [event_loop.VerlsWorker, event_loop.DocAgentLoopWorker])
async def test_rows_are_stored_whole_either_way(kind, monkeypatch):
    stored = []

    async def put(keys, fields, **_):
        stored.append((keys, fields))

    monkeypatch.setattr(transfer_queue, "async_kv_batch_put", put)
    monkeypatch.setattr(kind, "_compute_score", event_loop._no_score, raising=False)
    monkeypatch.setattr(kind, "_compute_teacher_logprobs", event_loop._no_score, raising=False)
    worker = event_loop.make_worker(kind)
    row = event_loop.make_row(worker.processor, tokens=3000, images=2)
    await event_loop.finish_together(worker, [row])
    ((keys, fields),) = stored
    assert keys == ["0_0_0"]
    length = fields["input_ids"].shape[-1]
    assert 2900 < length <= 3002
    (positions,) = fields["position_ids"]
    whole = positions if not is_compact(positions) else expand_positions(positions)
    assert whole.shape[-2:] == (4, length)
    assert fields["responses"].shape == fields["rollout_log_probs"].shape == (1, length - 2)


def test_texts_are_cut_in_three_ways():
    lines = event_loop.measure_cuts(texts=4, tokens=2000, limit=800)
    assert len({line[0] for line in lines}) == 3
    assert all(float(value) > 0 for line in lines for value in line[1:])

import pytest
import torch
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from docagent_rl.training.workers import trajectory_loss
from docagent_rl.training.workers.observation_kl import ReferenceStates, row_keys
from docagent_rl.training.workers.trajectory_loss import put_trajectory_tokens, trajectory_tokens
from tests.training.ranks import last_report
from tests.training.workers.batches import batch, nested


@pytest.fixture(scope="module")
def report(tmp_path_factory, warm_python) -> dict:
    """Return the report of verl's engines, FSDP2 over two processes: at the reference and away from
    it, then by trajectory.
    """
    folder = tmp_path_factory.mktemp("engine")
    return last_report(warm_python, "tests.training.workers.kl_engine", folder, ranks=2)


# micro-batches of two rows, or filled with rows and with verl's fused kernels
@pytest.fixture(params=["rows untied", "packed tied", "packed untied"])
def found(report, request) -> dict:
    assert report[request.param]["head"] == request.param.endswith("untied")
    return report[request.param]


@pytest.mark.slow(first=True)
def test_nothing_is_pulled_at_the_reference(found):
    for name in (
        "kl_observation",
        "kl_visual",
        "kl_generated",
        "observation_drift_l2",
        "kl_clamped",
    ):
        assert found["before"][name] == pytest.approx(0, abs=1e-6), name
    assert found["before"]["observation_drift_cosine"] == pytest.approx(1)


@pytest.mark.slow
def test_value_and_gradients_equal_dense_ones(found):
    assert found["kl"] > 0.1
    after = found["after"]
    assert after["kl_observation"] == after["kl_visual"] == pytest.approx(found["kl"], rel=1e-4)
    assert after["loss"] == pytest.approx(found["loss"], rel=1e-4)
    assert 0.1 < after["observation_drift_l2"] < 2
    assert found["error"] < 1e-5
    for step in ("before", "after"):  # eight rows over two workers; states are let go
        assert (found[step]["rows_kept"], found[step]["rows_left"]) == (4, 0)


@pytest.mark.slow
def test_a_row_that_was_rejected_since_the_references_pass_has_no_divergence(found):
    rejected = found["rejected"]
    assert rejected["kl"] == pytest.approx(rejected["expected"], rel=1e-4)
    assert abs(rejected["kl"] - found["kl"]) > 0.01
    assert rejected["error"] < 1e-5
    assert rejected["rows_left"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("mini_batch", ["8", "4", "8 packed"])
def test_updates_by_trajectory_against_a_loop_over_tokens(report, mini_batch):
    found = report["trajectories"][mini_batch]
    assert len(found["losses"]) == 8 // int(mini_batch.split()[0])
    assert found["losses"] == pytest.approx(found["expected"], rel=1e-4)
    assert found["error"] < 1e-5


CPU = torch.device("cpu")


def test_rows_come_back_in_the_order_asked_for():
    states = ReferenceStates()
    hidden = [torch.full((n, 3), float(n)) for n in (2, 0, 1)]
    states.put([b"a", b"b", b"c"], hidden)
    assert len(states) == 3
    assert states.get([b"c", b"b", b"a", b"c"], [1, 0, 2, 1], CPU)[:, 0].tolist() == [1, 2, 2, 1]
    # the last row was rejected since
    assert states.get([b"a", b"c"], [2, 0], CPU)[:, 0].tolist() == [2, 2]
    assert states.get([b"b"], [0], CPU).shape == (0, 3)
    states.clear()
    assert len(states) == 0
    with pytest.raises(RuntimeError, match="2 of 2"):
        states.get([b"a", b"b"], [2, 0], CPU)


def test_keys_know_tokens_and_log_probs():
    data = batch(["soi", "soi", "sois"], [2, 2, 2])
    log_probs = [
        torch.tensor([-1.0, -2.0, -3.0]),
        torch.tensor([-1.0, -2.0, -3.5]),
        torch.full((4,), -1.0),
    ]
    keys = row_keys(data, log_probs)
    # equal tokens, other images
    assert len(set(keys)) == 3
    assert row_keys(data, [log_probs[0], log_probs[0], log_probs[2]])[1] == keys[0]
    # integers and floats of other widths are the same row
    data["input_ids"] = data["input_ids"].int()
    assert row_keys(data, [row.double() for row in log_probs]) == keys


class Queue:
    """A transfer queue that is one dictionary of fields."""

    def __init__(self, masks):
        self.data = TensorDict({"response_mask": nested(masks)}, batch_size=len(masks))

    def kv_batch_get(self, keys, partition_id, select_fields):
        return self.data.select(*select_fields)

    def kv_batch_put(self, keys, partition_id, fields):
        self.data.update(fields)
        return KVBatchMeta(keys=keys, tags=[{}] * len(keys), partition_id=partition_id)


def test_tokens_are_counted_over_all_rows_of_a_trajectory(monkeypatch):
    masks = [[1, 0, 1], [1], [1, 1, 1, 1], [0, 0], [1, 1]]
    queue = Queue([torch.tensor(mask) for mask in masks])
    monkeypatch.setattr(trajectory_loss, "tq", queue)
    keys = ["q_1_0_0", "q_1_1_0", "q_1_0_1", "pad_0_0", "q_1_0_2"]
    put_trajectory_tokens(KVBatchMeta(keys=keys, tags=[{}] * 5, partition_id="train"))
    assert trajectory_tokens(queue.data) == [8, 1, 8, 0, 8]

"""Two agent workers with Ray, TransferQueue and real environments; a scripted server in the place of vLLM."""

from __future__ import annotations

import json
import sys
import time

import pytest
import torch
from tensordict import NonTensorStack, TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.rollout.replica import TokenOutput

from docagent_rl.rollout.digest import SessionDigest
from docagent_rl.rollout.line import SessionLine, whole_line
from docagent_rl.rollout.patches import PATCHES
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.agent_loop.output import SESSION_DIGEST, SESSION_LINE, TRAJECTORY
from docagent_rl.training.serving.named import all_named
from tests.crowd.play import configuration
from tests.crowd.world import make_world

pytestmark = pytest.mark.slow
N = "actor_rollout_ref.rollout.n=2"
WORKERS = "actor_rollout_ref.rollout.agent.num_workers=2"


class ScriptedClient:
    """Searches twice, then answers; fetches every image that it is named, as a server would."""

    def __init__(self, tokenizer, question):
        self.tokenizer, self.question = tokenizer, question

    async def generate(self, *, request_id, prompt_ids, sampling_params, image_data):
        images = image_data or []
        assert not images or all_named(images)
        for image in images:
            patches = await image.handle
            assert patches.shape == (image.grid[1] * image.grid[2], image.layout.patch_bytes)
        text = "<answer>7</answer>" if len(images) == 2 else f"<search>{self.question}</search>"
        ids = [*self.tokenizer.encode(f"<think>so</think>{text}"), self.tokenizer.eos_token_id]
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields={})


@pytest.fixture(scope="module")
def played(tmp_path_factory, warm_python):
    """Rows of a training step and of a validation, and the load of the workers."""
    import ray
    import transfer_queue as tq

    from docagent_rl.training.agent_loop.manager import DocAgentLoopManager
    from docagent_rl.training.settings.opening_check import load_tokenizer

    world = make_world(tmp_path_factory.mktemp("world"))
    config = configuration(world, "vrag_rl_qwen2_5_vl_7b", (WORKERS, N))
    tokenizer, _ = load_tokenizer(config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(warm_python))
        ray.init(address="local", num_cpus=6, num_gpus=0, include_dashboard=False, log_to_driver=False)
    try:
        tq.init(config.transfer_queue)
        client = ScriptedClient(tokenizer, world.records[0].question)
        manager = DocAgentLoopManager.create(config=config, llm_client=client)
        train = step(
            tq, manager, world.records[0], "train", ("multi_modal_inputs", SESSION_LINE, SESSION_DIGEST)
        )
        val = step(tq, manager, world.records[0], "val", ("multi_modal_inputs", "extra_fields"))
        yield train, val, manager.gauges()
    finally:
        tq.close()  # which leaves its client in this process otherwise
        ray.shutdown()


def step(tq, manager, record, partition, fields):
    """A group of sessions for each worker, of the same question; the fields of their rows."""
    columns = {
        "uid": [f"{partition}{n}" for n in range(2)],
        "index": [0, 1],
        "record": [record.to_json()] * 2,
        "agent_name": ["docagent"] * 2,
    }
    batch = TensorDict({name: NonTensorStack(*values) for name, values in columns.items()}, batch_size=2)
    tu.assign_non_tensor(batch, global_steps=1, validate=partition == "val")
    manager.generate_sequences(batch)
    deadline = time.monotonic() + 120
    while True:
        tags = tq.kv_list(partition_id=partition).get(partition, {})
        statuses = [tags.get(uid, {}).get("status") for uid in columns["uid"]]
        if statuses == ["finished"] * 2:
            break
        assert "failure" not in statuses
        assert time.monotonic() < deadline, statuses
        time.sleep(0.1)
    keys = sorted(tags.keys() - set(columns["uid"]))
    rows = tq.kv_batch_get(keys=keys, partition_id=partition)
    return [
        {name: getattr(rows[name][n], "data", rows[name][n]) for name in fields} for n in range(len(keys))
    ]


def test_an_image_is_made_once_for_all_workers_sessions_and_steps(played):
    train, val, _ = played
    holes = [SessionDigest.from_json(row[SESSION_DIGEST]).holes for row in train]
    lines = [whole_line(SessionLine(row[SESSION_LINE], each)) for row, each in zip(train, holes, strict=True)]
    sessions = [Trajectory.from_dict(json.loads(line)) for line in lines]
    assert [s.end for s in sessions] == ["answered"] * 4
    messages = [message for s in sessions for turn in s.turns for message in turn.observation]
    shown = [str(part["image"]) for message in messages for part in message["parts"] if "image" in part]
    assert len(shown) == 8
    assert sum(s.image_preprocessings for s in sessions) == len(set(shown)) == 2
    for row in val:
        session = json.loads(row["extra_fields"]["reward_extra_info"][TRAJECTORY])
        assert Trajectory.from_dict(session).image_preprocessings == 0


def test_training_rows_carry_bytes_and_validation_rows_nothing(played):
    train, val, _ = played
    for row in train:
        images = row["multi_modal_inputs"]
        assert images[PATCHES].dtype == torch.uint8
        assert "pixel_values" not in images
    assert [row["multi_modal_inputs"] for row in val] == [{}] * len(val) != []


def test_the_load_of_the_workers_is_told(played):
    gauges = {name.removeprefix("docagent/workers/"): value for name, value in played[2].items()}
    assert gauges["shelf_images"] == 2
    # both workers look at the same memory
    assert gauges["images_bytes"] == 2 * gauges["shelf_bytes"] > 0
    assert gauges["event_loop_lag_s"] >= 0
    assert gauges["sessions_waiting"] == 0

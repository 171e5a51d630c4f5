"""Two agent workers with Ray, TransferQueue and real environments; a scripted server in the place of vLLM."""

from __future__ import annotations

import json
import sys
import time
from types import SimpleNamespace

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
SESSIONS = 2
FIELDS = {
    "train": ("multi_modal_inputs", SESSION_LINE, SESSION_DIGEST),
    "val": ("multi_modal_inputs", "extra_fields"),
}


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
    overrides = ("actor_rollout_ref.rollout.agent.num_workers=2", f"actor_rollout_ref.rollout.n={SESSIONS}")
    config = configuration(world, "vrag_rl_qwen2_5_vl_7b", overrides)
    tokenizer, _ = load_tokenizer(config)
    record = world.records[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(warm_python))
        ray.init(address="local", num_cpus=6, num_gpus=0, include_dashboard=False, log_to_driver=False)
    try:
        tq.init(config.transfer_queue)
        client = ScriptedClient(tokenizer, record.question)
        manager = DocAgentLoopManager.create(config=config, llm_client=client)
        found = {}
        for partition, validate in (("train", False), ("val", True)):
            uids = [f"{partition}{n}" for n in range(2)]  # one for each worker, of the same question
            batch = TensorDict(
                {
                    "uid": NonTensorStack(*uids),
                    "index": NonTensorStack(0, 1),
                    "record": NonTensorStack(*[record.to_json()] * 2),
                    "agent_name": NonTensorStack("docagent", "docagent"),
                },
                batch_size=2,
            )
            tu.assign_non_tensor(batch, global_steps=1, validate=validate)
            manager.generate_sequences(batch)
            count = SESSIONS if not validate else int(config.actor_rollout_ref.rollout.val_kwargs.n)
            keys = [f"{uid}_{session}_0" for uid in uids for session in range(count)]
            _wait(tq, uids, partition)
            rows = tq.kv_batch_get(keys=keys, partition_id=partition)
            names = FIELDS[partition]
            found[partition] = [{name: plain(rows[name][n]) for name in names} for n in range(len(keys))]
        yield SimpleNamespace(**found, gauges=manager.gauges())
    finally:
        tq.close()  # which leaves its client in this process otherwise
        ray.shutdown()


def plain(value):
    return getattr(value, "data", value)


def _wait(tq, uids, partition):
    until = time.monotonic() + 120
    while time.monotonic() < until:
        tags = tq.kv_list(partition_id=partition).get(partition, {})
        statuses = [tags.get(uid, {}).get("status") for uid in uids]
        if all(status == "finished" for status in statuses):
            return
        assert "failure" not in statuses
        time.sleep(0.2)
    raise TimeoutError(statuses)


def trajectory(row):
    if SESSION_LINE in row:
        holes = SessionDigest.from_json(row[SESSION_DIGEST]).holes
        return Trajectory.from_dict(json.loads(whole_line(SessionLine(row[SESSION_LINE], holes))))
    return Trajectory.from_dict(json.loads(row["extra_fields"]["reward_extra_info"][TRAJECTORY]))


def test_an_image_is_made_once_for_all_workers_sessions_and_steps(played):
    sessions = [trajectory(row) for row in played.train]
    assert [s.end for s in sessions] == ["answered"] * 4
    messages = [message for s in sessions for turn in s.turns for message in turn.observation]
    shown = [part["image"] for message in messages for part in message["parts"] if "image" in part]
    different = len({str(image) for image in shown})
    assert len(shown) == 8
    assert sum(s.image_preprocessings for s in sessions) == different == 2
    assert sum(trajectory(row).image_preprocessings for row in played.val) == 0


def test_training_rows_carry_bytes_and_validation_rows_nothing(played):
    for row in played.train:
        images = row["multi_modal_inputs"]
        assert images[PATCHES].dtype == torch.uint8
        assert "pixel_values" not in images
    assert [row["multi_modal_inputs"] for row in played.val] == [{}] * len(played.val)


def test_the_load_of_the_workers_is_told(played):
    gauges = played.gauges
    assert gauges["docagent/workers/shelf_images"] == 2
    # both workers look at the same memory
    assert gauges["docagent/workers/images_bytes"] == 2 * gauges["docagent/workers/shelf_bytes"] > 0
    assert gauges["docagent/workers/event_loop_lag_s"] >= 0
    assert gauges["docagent/workers/sessions_waiting"] == 0

"""Why sessions are masked, by the loop that verl runs."""

from __future__ import annotations

import asyncio
import base64
import json
from types import SimpleNamespace

import pytest
from verl.experimental.agent_loop.agent_loop import DictConfigWrap

from docagent_rl.errors import InfrastructureError
from docagent_rl.rollout.trajectory import MaskReason, Trajectory
from docagent_rl.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl
from docagent_rl.training.agent_loop.loop import DocAgentLoop
from docagent_rl.training.agent_loop.output import session_json
from docagent_rl.training.settings.opening_check import load_tokenizer

RECIPE = "doc_v_star_qwen2_5_vl_7b"


class Server:
    """A rollout server that always samples the same token, or fails, or never answers."""

    def __init__(self, token=None, error=None):
        self.token, self.error, self.reached = token, error, asyncio.Event()

    async def generate(self, **_):
        self.reached.set()
        if self.error is not None:
            raise self.error
        if self.token is None:
            await asyncio.Event().wait()
        return SimpleNamespace(token_ids=[self.token], log_probs=[0.0], extra_fields={})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return build_tiny_qwen2_5_vl(tmp_path_factory.mktemp("model"))


@pytest.fixture
def play(world, model, recipe):
    """Play one session; its rows and its record."""

    async def run(server, record=world.records[0], config=None):
        values = f"docagent.workspace={world.root}", f"actor_rollout_ref.model.path={model}"
        config = config or recipe(RECIPE, *values)
        tokenizer, processor = load_tokenizer(config)
        if isinstance(server, str):
            server = Server(tokenizer.convert_tokens_to_ids(server))
        loop = DocAgentLoop(DictConfigWrap(config), server, tokenizer, processor)
        rows = await loop.run(
            {"temperature": 0.0}, record=record.to_json(), uid="u", session_id=0, global_steps=1
        )
        return rows, Trajectory.from_dict(json.loads(session_json(rows)))

    return run


SILENT, CONTROL = "<|im_end|>", "<|image_pad|>"


def masked(rows, trajectory: Trajectory, reason: MaskReason) -> bool:
    (row,) = rows
    return trajectory.masked and trajectory.end == reason.value and not any(row.response_mask)


@pytest.mark.slow
async def test_a_question_whose_prompt_fits_only_when_its_overview_may_shrink(long_workspace, play):
    record = long_workspace.record("long")
    strict = long_workspace.config(RECIPE, "+docagent.env_cpu.overview.fit=error")
    rows, trajectory = await play(SILENT, record, strict)
    assert masked(rows, trajectory, MaskReason.SAMPLE)
    assert "'long', 130 " in trajectory.error
    rows, trajectory = await play(SILENT, record, long_workspace.config(RECIPE))
    assert not trajectory.masked
    assert trajectory.turns
    assert (trajectory.metrics["overview/cell_px"], trajectory.metrics["overview/pages"]) == (42, 130)
    assert trajectory.prompt_tokens == len(rows[0].prompt_ids) <= 1536


async def test_a_policy_that_samples_a_control_token_at_once(play):
    rows, trajectory = await play(CONTROL)
    assert masked(rows, trajectory, MaskReason.EMPTY)
    assert trajectory.metrics["reward/total"] == 0


@pytest.mark.parametrize("kind", [KeyError, AssertionError, RecursionError, asyncio.CancelledError])
async def test_an_exception_that_nobody_foresaw_is_handed_on_with_its_traceback(world, play, kind):
    """Also a cancellation of something that the session waits for."""
    rows, trajectory = await play(Server(error=kind("in the middle")))
    assert masked(rows, trajectory, MaskReason.FAILED)
    assert trajectory.record["question_id"] == world.records[0].question_id
    assert (trajectory.uid, trajectory.session, trajectory.step) == ("u", 0, 1)
    assert "in generate" in trajectory.error
    assert kind.__name__ in trajectory.error.splitlines()[-1]
    assert "in the middle" in trajectory.error


async def test_no_picture_is_kept_with_a_traceback(play):
    picture = base64.b64encode(bytes(5000)).decode()
    _, trajectory = await play(Server(error=TypeError(picture)))
    assert trajectory.end == MaskReason.FAILED.value
    assert f"[{len(picture.rstrip('='))}" in trajectory.error or f"[{len(picture)}" in trajectory.error
    assert picture[:300] not in trajectory.error


async def test_a_record_that_lacks_fields_is_no_way_out(play):
    broken = SimpleNamespace(to_json=lambda: '{"question_id": "q7"}')
    rows, trajectory = await play(SILENT, broken)
    assert masked(rows, trajectory, MaskReason.FAILED)
    assert trajectory.record == {"question_id": "q7"}


async def test_a_session_can_be_cancelled(play):
    server = Server()
    task = asyncio.create_task(play(server))
    await server.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_service_that_is_down(play):
    rows, trajectory = await play(Server(error=InfrastructureError("down")))
    assert masked(rows, trajectory, MaskReason.INFRASTRUCTURE)
    assert trajectory.attempts == 2

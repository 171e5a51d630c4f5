"""The agent loop with a scripted server instead of vLLM: it gets a configuration and returns token
ids.
"""

import asyncio
import base64
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf
from ray.core.generated.common_pb2 import ActorDiedErrorContext
from ray.exceptions import ActorDiedError, RayTaskError

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.rollout.trajectory import MaskReason, Trajectory
from docagent_rl.training.agent_loop import loop
from docagent_rl.training.settings.models import load_tokenizer
from tests.thinking_template import THINKING_TEMPLATE
from tests.training.agent_loop.lines import CONTROL, Server, played

TEXT, IMAGES = "mm_doc_r1_qwen3_8b", "doc_v_star_qwen2_5_vl_7b"
HEADER = "<|im_start|>assistant\n"
NO_THOUGHT = HEADER + "<think>\n\n</think>\n\n"
SEARCH = '<search>["report"]</search>'
ANSWERING = "+ablations=mm_doc_r1/policy_answer"


@pytest.fixture(scope="module")
def tokenizer():
    """Return a tokenizer with Qwen3's template and its two marks of a thought, which are no special
    tokens in Qwen3 either.
    """
    made = build_tokenizer()
    made.add_tokens(["<think>", "</think>"])
    made.chat_template = THINKING_TEMPLATE
    return made


@pytest.fixture
def play(world, tokenizer, recipe):
    """Play a trajectory of given lines; return its server, its rows and its record."""

    async def run(lines, *values, choices=()):
        values = (
            f"docagent.workspace={world.root}",
            f"docagent.retriever.index={world.root}/index",
            *values,
        )
        config = recipe(TEXT, *values, cpu=False, choices=choices)
        OmegaConf.update(config, "hydra", {})
        server = Server(tokenizer, lines)
        return server, *await played(config, server, None, world.samples[0])

    return run


async def test_thinking_is_off_unless_an_ablation_allows_it(play, tokenizer):
    """One process plays under both configurations, since trajectories of one must not share the
    resources of the other.
    """
    server, rows, _ = await play([SEARCH, "<FINISH>"])
    for prompt, row in zip(server.prompts, rows, strict=True):
        assert prompt.endswith(NO_THOUGHT)
        assert tokenizer.decode(row.prompt_ids) == prompt
        assert all(row.response_mask)
    lines = ["<think>\n<FINISH> already? No.\n</think>\n\n" + SEARCH, "<FINISH>"]
    server, rows, _ = await play(lines, choices=("+ablations=mm_doc_r1/thinking",))
    assert all(prompt.endswith(HEADER) for prompt in server.prompts)
    # the thought holds no action, is sampled and trained, and is not shown again
    assert len(rows) == len(server.prompts) == 2
    assert "already?" not in server.prompts[1]
    assert "Step 1" in server.prompts[1]


async def test_the_policy_answers_and_is_not_trained_on_it(play, world):
    answer = world.samples[0].answers[-1]  # spelled without a comma, as the benchmark wants it
    server, rows, trajectory = await play([SEARCH, "<FINISH>", answer], choices=(ANSWERING,))
    # a third prompt, with the question and what was found, thinking off as everywhere
    assert len(server.prompts) == 3
    for part in (world.samples[0].question, "Found on p.", NO_THOUGHT):
        assert part in server.prompts[2]
    assert len(rows) == 2
    assert trajectory.turns[-1].info["outcome"]["answer"] == answer
    assert rows[-1].reward_score == pytest.approx(1.0)
    # greedy, whatever the rollout samples
    assert server.sampled[1:] == [(0.8, 1024), (0.0, 1024)]


@pytest.mark.parametrize("nothing", ["", "<think>\nhm"])
async def test_a_policy_that_answers_with_nothing_does_not_abstain(play, nothing):
    *_, trajectory = await play(["<FINISH>", nothing], choices=(ANSWERING,))
    assert trajectory.turns[-1].info["outcome"] == {"answer": "", "extracted": None, "pages": []}


async def test_material_that_the_server_cannot_take_masks_the_trajectory(play):
    length = "actor_rollout_ref.rollout.max_model_len=1100"
    _, (row,), trajectory = await play([SEARCH, "<FINISH>"], length, choices=(ANSWERING,))
    assert not any(row.response_mask)
    assert "max_model_len=1100" in trajectory.error


@pytest.fixture(scope="module")
def images(world, recipe, tmp_path_factory):
    """Return a run that shows images, its tokenizer and its processor."""
    model = build_tiny_model(tmp_path_factory.mktemp("model"))
    config = recipe(
        IMAGES, f"docagent.workspace={world.root}", f"actor_rollout_ref.model.path={model}"
    )
    return config, *load_tokenizer(config)


@pytest.fixture
def play_images(world, images):
    """Play a trajectory whose server samples these lines or raises an error; return its rows and
    its record.
    """

    async def run(*lines, sample=world.samples[0], server=None):
        server = server or Server(images[1], lines)
        return await played(images[0], server, images[2], sample)

    return run


def masked(rows, trajectory: Trajectory, reason: MaskReason) -> bool:
    (row,) = rows
    return trajectory.masked and trajectory.end == reason.value and not any(row.response_mask)


async def test_a_policy_that_samples_a_control_token_at_once(play_images):
    rows, trajectory = await play_images(CONTROL)
    assert masked(rows, trajectory, MaskReason.EMPTY)
    assert trajectory.metrics["reward/total"] == 0


@pytest.mark.parametrize("kind", [KeyError, RecursionError, asyncio.CancelledError])
async def test_an_exception_that_nobody_foresaw_is_handed_on_with_its_traceback(
    world, play_images, kind
):
    """This includes the cancellation of something that the trajectory waits for. The exception
    keeps no picture.
    """
    picture = base64.b64encode(bytes(5001)).decode()
    rows, trajectory = await play_images(kind(f"in the middle {picture}"))
    assert masked(rows, trajectory, MaskReason.FAILED)
    assert trajectory.sample["question_id"] == world.samples[0].question_id
    assert (trajectory.uid, trajectory.number, trajectory.step) == ("u", 0, 1)
    assert "in generate" in trajectory.error
    assert f"{kind.__name__}: " in trajectory.error.splitlines()[-1]
    assert "in the middle" in trajectory.error
    assert f"[{len(picture)}" in trajectory.error
    assert picture[:300] not in trajectory.error


async def test_a_sample_that_lacks_fields_is_no_way_out(play_images):
    rows, trajectory = await play_images(
        "", sample=SimpleNamespace(to_json=lambda: '{"question_id": "q7"}')
    )
    assert masked(rows, trajectory, MaskReason.FAILED)
    assert trajectory.sample == {"question_id": "q7"}


async def test_a_trajectory_can_be_cancelled(play_images, images):
    server = Server(images[1], [None])
    task = asyncio.create_task(play_images(server=server))
    await server.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_service_that_is_down(play_images):
    rows, trajectory = await play_images(InfrastructureError("down"))
    assert masked(rows, trajectory, MaskReason.INFRASTRUCTURE)
    assert trajectory.attempts == 2


class EngineDeadError(RuntimeError):
    """An error with the name of vLLM's."""


async def test_a_dead_engine_is_one_line_in_the_log_and_no_traceback(
    play_images, monkeypatch, caplog
):
    monkeypatch.setattr(loop, "_logged", set())
    remote = (
        "Traceback of the server\n  File x, line 1\nEngineDeadError: EngineCore encountered "
        "an issue."
    )
    cause = EngineDeadError("EngineCore encountered an issue.")
    for _ in range(3):
        dead = RayTaskError("vLLMHttpServer.generate", remote, cause).as_instanceof_cause()
        rows, trajectory = await play_images(dead)
        assert masked(rows, trajectory, MaskReason.INFRASTRUCTURE)
        assert trajectory.error == "EngineDeadError: EngineCore encountered an issue."
    (line,) = caplog.messages
    assert line.endswith("attempt 1 of 2: EngineDeadError: EngineCore encountered an issue.")
    await play_images(InfrastructureError("down"))  # a service's failure is logged each time
    assert len(caplog.messages) == 4


def test_a_dead_actor_is_named_without_ids():
    context = ActorDiedErrorContext(
        class_name="S", actor_id=b"\0" * 16, error_message="It was killed."
    )
    reason = loop.failure_reason(ActorDiedError(context))
    assert reason.startswith("ActorDiedError: ")
    assert "\n" not in reason


@pytest.fixture
def function(tmp_path):
    """Write a file for `reward.custom_reward_function`; return the value of its key."""

    def write(body):
        file = tmp_path / "mine.py"
        file.write_text(
            f"def compute_score(data_source, solution_str, ground_truth, extra_info):\n    {body}\n"
        )
        return f"reward.custom_reward_function.path={file}"

    return write


async def test_a_reward_function_of_ones_own_is_called(play, function):
    """verl itself would never call it, since every row has the reward of the agent loop."""
    path = function("return {'score': 5, 'turns': extra_info['num_turns']}")
    _, plain, without = await play([SEARCH, "<FINISH>"])
    _, rows, trajectory = await play(
        [SEARCH, "<FINISH>"], path, "docagent.reward_function.weight=0.5"
    )
    assert trajectory.reward == rows[-1].reward_score == pytest.approx(without.reward + 2.5)
    assert sum(sum(row.token_rewards) for row in rows) == pytest.approx(trajectory.reward)
    assert rows[-1].token_rewards[-1] == pytest.approx(plain[-1].token_rewards[-1] + 2.5)
    # what verl's samplers and its validation read
    for row in rows:
        numbers = row.extra_fields["reward_extra_info"]
        assert (numbers["reward/compute_score"], numbers["reward/compute_score.turns"]) == (
            5.0,
            2.0,
        )
        assert numbers["reward/total"] == pytest.approx(without.reward)
    _, _, replaced = await play([SEARCH, "<FINISH>"], path, "docagent.reward_function.mode=replace")
    assert replaced.reward == 5.0
    assert replaced.metrics["reward/total"] == pytest.approx(without.reward)


async def test_a_reward_function_that_raises_masks_the_trajectory_once(world, play, function):
    server, rows, trajectory = await play(
        [SEARCH, "<FINISH>"], function("raise ValueError('no unit')")
    )
    assert masked(rows, trajectory, MaskReason.INFRASTRUCTURE)
    # another one in its place would be one that the function can read
    assert trajectory.attempts == 1
    assert len(server.prompts) == 2
    for part in (
        repr(world.samples[0].question_id),
        "compute_score (",
        "mine.py, line 2",
        "ValueError: no unit",
    ):
        assert part in trajectory.error
    assert rows[0].reward_score == 0
    assert rows[0].extra_fields["reward_extra_info"] == {}


async def test_a_reward_that_is_not_finite_masks_the_trajectory(world, play, function):
    _, rows, trajectory = await play([SEARCH, "<FINISH>"], function("return float('nan')"))
    assert masked(rows, trajectory, MaskReason.INFRASTRUCTURE)
    assert f"question {world.samples[0].question_id!r}" in trajectory.error
    assert "the term 'compute_score' is nan" in trajectory.error

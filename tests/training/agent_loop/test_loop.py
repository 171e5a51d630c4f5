"""The agent loop with a scripted server in the place of vLLM: configuration in, token ids out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.workers.rollout.replica import TokenOutput

from docagent_rl.checks.recipe_check import composed
from docagent_rl.rollout import env_resources
from docagent_rl.rollout import resources as shared
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.systems import get_system
from docagent_rl.tiny.template import THINKING_TEMPLATE
from docagent_rl.tiny.tokenizer import build_tokenizer
from docagent_rl.training.agent_loop.loop import DocAgentLoop, _warn_once
from docagent_rl.training.agent_loop.output import session_json

RECIPE = "mm_doc_r1_qwen3_8b"
HEADER = "<|im_start|>assistant\n"
NO_THOUGHT = HEADER + "<think>\n\n</think>\n\n"


@pytest.fixture(scope="module")
def tokenizer():
    """With Qwen3's template and its two marks of a thought, which are no special tokens there either."""
    made = build_tokenizer()
    made.add_tokens(["<think>", "</think>"])
    made.chat_template = THINKING_TEMPLATE
    return made


class Server:
    """Says given lines and keeps what it was asked."""

    def __init__(self, tokenizer, lines):
        self.tokenizer, self.lines, self.prompts, self.sampled = tokenizer, list(lines), [], []

    async def generate(self, *, request_id, prompt_ids, sampling_params, image_data):
        self.prompts.append(self.tokenizer.decode(prompt_ids))
        self.sampled.append((sampling_params["temperature"], sampling_params["max_tokens"]))
        ids = [*self.tokenizer.encode(self.lines.pop(0)), self.tokenizer.convert_tokens_to_ids("<|im_end|>")]
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields={})


@pytest.fixture
def play(world, tokenizer):
    """Play a session of given lines; its server, its rows and its record."""

    async def run(lines, *overrides):
        index = f"docagent.retriever.index={world.root}/index"
        config = composed(RECIPE, [f"docagent.workspace={world.root}", index, *overrides])
        OmegaConf.update(config, "hydra", {})
        server = Server(tokenizer, lines)
        loop = DocAgentLoop(DictConfigWrap(config), server, tokenizer, None)
        record = world.records[0].to_json()
        sampling = {"temperature": config.actor_rollout_ref.rollout.temperature}
        rows = await loop.run(sampling, record=record, uid="u", session_id=0, global_steps=1)
        return server, rows, Trajectory.from_dict(json.loads(session_json(rows)))

    return run


SEARCH = '<search>["report"]</search>'
ANSWERING = "+ablations=mm_doc_r1/policy_answer"


async def test_thinking_is_off_unless_an_ablation_allows_it(play, tokenizer):
    """One process, both configurations: what sessions share is not that of the other."""
    server, rows, _ = await play([SEARCH, "<FINISH>"])
    for prompt, row in zip(server.prompts, rows, strict=True):
        assert prompt.endswith(NO_THOUGHT)
        assert tokenizer.decode(row.prompt_ids) == prompt
        assert all(row.response_mask)
    thought = "<think>\n<FINISH> already? No.\n</think>\n\n"
    server, rows, _ = await play([thought + SEARCH, "<FINISH>"], "+ablations=mm_doc_r1/thinking")
    assert all(prompt.endswith(HEADER) for prompt in server.prompts)
    # the thought holds no action, is sampled and trained, and is not shown again
    assert len(rows) == len(server.prompts) == 2
    assert "already?" not in server.prompts[1]
    assert "Step 1" in server.prompts[1]


async def test_what_does_not_fit_together_is_named_once(play, caplog, monkeypatch):
    """An argument that the template does not read; a system that does not say that it has several rows."""
    _warn_once.cache_clear()
    monkeypatch.setattr(shared, "_known", {})
    await play([SEARCH, "<FINISH>"], "+data.apply_chat_template_kwargs.enable_thnking=true")
    assert "enable_thnking" in caplog.text
    assert "several_rows" not in caplog.text
    monkeypatch.setattr(shared, "_known", {})
    undeclared = replace(get_system("mm_doc_r1"), several_rows=False)
    monkeypatch.setattr(env_resources, "get_system", lambda _: undeclared)
    for _ in range(2):
        await play([SEARCH, "<FINISH>"])
    assert caplog.text.count("several_rows=True") == 1


async def test_the_policy_answers_and_is_not_trained_on_it(play, world):
    answer = world.records[0].answers[-1]  # spelled without a comma, as the benchmark wants it
    server, rows, session = await play([SEARCH, "<FINISH>", answer], ANSWERING)
    # a third prompt, with the question and what was found, thinking off as everywhere
    assert len(server.prompts) == 3
    for part in (world.records[0].question, "Found on p.", NO_THOUGHT):
        assert part in server.prompts[2]
    assert len(rows) == 2
    assert session.turns[-1].info["outcome"]["answer"] == answer
    assert rows[-1].reward_score == pytest.approx(1.0)
    # greedy, whatever the rollout samples
    assert server.sampled[1:] == [(0.8, 1024), (0.0, 1024)]


async def test_a_policy_that_answers_with_nothing_does_not_abstain(play):
    for nothing in ("", "<think>\nhm"):
        *_, session = await play(["<FINISH>", nothing], ANSWERING)
        assert session.turns[-1].info["outcome"] == {"answer": "", "extracted": None, "pages": []}


async def test_material_that_the_server_cannot_take_masks_the_session(play):
    length = "actor_rollout_ref.rollout.max_model_len=1100"
    _, (row,), session = await play([SEARCH, "<FINISH>"], ANSWERING, length)
    assert not any(row.response_mask)
    assert "max_model_len=1100" in session.error

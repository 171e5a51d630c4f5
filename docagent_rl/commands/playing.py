"""Parts of commands that play trajectories: the player, the folder of replies, the counter of
tokens.
"""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import TYPE_CHECKING

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.rewards.judge import JudgeKind

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from docagent_rl.config import DocAgentConfig
    from docagent_rl.envs.token_budget import TokenCounter
    from docagent_rl.lab.agents.chat import ChatLimits
    from docagent_rl.rollout.env_resources import EnvResources
    from docagent_rl.rollout.recorder import Player

ENGINE_TRAJECTORIES = 32
"""Trajectories at a time on an engine, which batches their turns."""
REPLIES = "replies"
_QUIET = {"VLLM_LOGGING_LEVEL": "ERROR", "TOKENIZERS_PARALLELISM": "false"}


def check_model(agent: Agent, model: ModelConfig) -> None:
    """See that the options say who plays; call it before anything imports vLLM, which is kept
    quiet.
    """
    if agent.modelled and not model.model:
        raise UserError(
            "name the model that plays: --model with --base-url for one behind an endpoint, or "
            "--model PATH "
            "for a folder of weights or a checkpoint, which runs in this process"
        )
    if not agent.modelled and (model.model or model.base_url):
        raise UserError(f"--agent {agent.value} asks no model: leave out --model and --base-url")
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)


def trajectories_at_a_time(model: ModelConfig, run: DictConfig) -> int:
    """Return how many the endpoint takes, or an engine."""
    if model.base_url:
        return model.concurrency
    return min(
        ENGINE_TRAJECTORIES, int(run.actor_rollout_ref.rollout.max_num_seqs or ENGINE_TRAJECTORIES)
    )


def chat_limits(run: DictConfig, parsed: DocAgentConfig, seed: int) -> ChatLimits:
    """Return the limits of a recipe for a model behind an endpoint."""
    from docagent_rl.lab.agents.chat import ChatLimits

    context = int(run.data.max_prompt_length) + int(run.data.max_response_length)
    return ChatLimits(
        parsed.rollout.turn_tokens, context, parsed.rollout.min_turn_tokens, seed=seed
    )


async def open_player(
    run: DictConfig, parsed: DocAgentConfig, agent: Agent, model: ModelConfig, *, seed: int
) -> Player:
    """Open the player; whoever opens it closes it.

    `run` is the composed configuration, checked, and `parsed` its section `docagent`. The model
    writes the turns: a path of weights where it has no address.
    """
    if agent.modelled and not model.base_url:
        # imports torch, vLLM and verl
        from docagent_rl.training.engine.player import EnginePlayer

        return await EnginePlayer.open(run, str(model.model), seed=seed)
    from docagent_rl.endpoints.remote_model import open_model
    from docagent_rl.lab.agents.chat import ChatModel, ChatPlayer
    from docagent_rl.lab.agents.scripted import ChancePlayer, ScriptPlayer

    resources = open_resources(parsed, validate=True)
    if agent is Agent.ORACLE:
        return ScriptPlayer(resources, seed=seed)
    if agent is Agent.RANDOM:
        return ChancePlayer(resources, seed=seed)
    remote = open_model(model, "model that plays", None)
    await remote.check()
    return ChatPlayer(resources, ChatModel(remote), chat_limits(run, parsed, seed))


def open_resources(parsed: DocAgentConfig, *, validate: bool) -> EnvResources:
    """Make what environments share, and refuse a configuration that no trajectory could play."""
    from docagent_rl.rollout.env_resources import EnvResources

    resources = EnvResources(parsed, running=False)
    resources.environment(validate=validate)
    return resources


def keep_replies(run: DictConfig, model: ModelConfig, out: Path) -> tuple[DictConfig, ModelConfig]:
    """Return configuration and model with the replies of all kept in the folder of the run, or as
    named.

    A trajectory that a spent budget or a kill cuts short is played again from its first turn: what
    was paid for is then taken from there. The configuration that is given stays: it says what the
    run is, wherever it lies.
    """
    replies = out.resolve() / REPLIES
    playing = copy.deepcopy(run)
    asked = dict(playing.docagent.roles or {})
    judge = playing.docagent.judge
    if judge.kind == JudgeKind.OPENAI.value:
        asked["judge"] = judge
    for name, section in asked.items():
        if section.get("base_url") and not section.get("cache_dir"):
            section["cache_dir"] = str(replies / str(name))
    if model.base_url and model.cache_dir is None:
        model = model.model_copy(update={"cache_dir": replies / "model"})
    return playing, model


def run_counter(run: Path) -> TokenCounter:
    """Return the counter by which a stored run kept texts within budgets of tokens.

    The tokenizer is the one that the run's configuration names, or that its last checkpoint holds.
    A run without one, as with a model behind an endpoint, estimated numbers, and so does a file
    that belongs to no run: whoever reads its trajectories says what is wrong with it.
    """
    from docagent_rl.envs.token_budget import estimated_tokens
    from docagent_rl.lab.viewer.folder import ViewedRun
    from docagent_rl.lab.viewer.runs import OpenRun

    try:
        tokenizer = OpenRun(0, run.name, ViewedRun(run)).tokenizer
    except UserError:
        return estimated_tokens
    if tokenizer is None:
        return estimated_tokens
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)

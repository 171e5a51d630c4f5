"""Code shared by commands that play trajectories: players, cached replies, token counters."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.endpoints.http_client import read_api_key
from docagent_rl.endpoints.listening import require_listening
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.rewards.judge import JudgeKind

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from docagent_rl.config import DocAgentConfig
    from docagent_rl.envs.token_budget import TokenCounter
    from docagent_rl.lab.agents.chat import ChatLimits
    from docagent_rl.rollout.env_resources import EnvResources
    from docagent_rl.rollout.recorder import Player
    from docagent_rl.samples.sample import Sample

ENGINE_TRAJECTORIES = 32
"""Number of trajectories that an engine plays at the same time; it batches their turns."""
REPLIES = "replies"
_QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TRANSFORMERS_VERBOSITY": "error",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "TORCH_LOGS": "-torch.utils.cpp_extension",  # warns where there is no CUDA
    "TOKENIZERS_PARALLELISM": "false",
}
"""Environment variables that keep libraries from writing between the lines of a command."""


def check_model(agent: Agent, model: ModelConfig, overrides: Sequence[str] = ()) -> None:
    """Check that the options name a player, and that its endpoint and those of overrides listen.

    It silences libraries: call it before they are imported, and before work that would be in vain.

    Raises:
        UserError: A model or its key is missing, or a model is named for an agent that uses none.
        InfrastructureError: Nothing listens at an address.
    """
    if agent.modelled and not model.model:
        raise UserError(
            "name the model that plays: --model with --base-url for one behind an endpoint, or "
            "--model PATH for a folder of weights or a checkpoint, which runs in this process"
        )
    if not agent.modelled and (model.model or model.base_url):
        raise UserError(f"--agent {agent.value} uses no model: leave out --model and --base-url")
    if model.base_url:
        read_api_key(model.api_key_env, "--api-key-env")
        require_listening(model.base_url, "--base-url")
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        if key.endswith("url") and value.startswith(("http://", "https://")):
            require_listening(value, key)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)


def questions_to_play(data: Path) -> list[Sample]:
    """Read the questions of a file; call it before what imports verl, which takes seconds.

    Raises:
        UserError: The file cannot be read, or has no question.
    """
    from docagent_rl.samples.parquet import read_samples

    found = read_samples(data)
    if not found:
        raise UserError(
            f"{data} contains no questions: write them there, one JSON object per line "
            "(docs/own_data.md), or name another file"
        )
    return found


def given_temperature(model: ModelConfig) -> float | None:
    """Return the temperature that options or their file name; `None` if they leave it open."""
    return model.temperature if "temperature" in model.model_fields_set else None


def trajectories_at_a_time(model: ModelConfig, run: DictConfig) -> int:
    """Return how many trajectories to play at the same time on the endpoint or the engine."""
    if model.base_url:
        return model.concurrency
    return min(
        ENGINE_TRAJECTORIES, int(run.actor_rollout_ref.rollout.max_num_seqs or ENGINE_TRAJECTORIES)
    )


def chat_limits(run: DictConfig, parsed: DocAgentConfig, seed: int) -> ChatLimits:
    """Return a recipe's token limits for a model behind an endpoint."""
    from docagent_rl.lab.agents.chat import ChatLimits

    context = int(run.data.max_prompt_length) + int(run.data.max_response_length)
    return ChatLimits(
        parsed.rollout.turn_tokens, context, parsed.rollout.min_turn_tokens, seed=seed
    )


async def open_player(
    run: DictConfig, parsed: DocAgentConfig, agent: Agent, model: ModelConfig, *, seed: int
) -> Player:
    """Open the player; the caller closes it.

    `run` is the composed configuration, already checked, and `parsed` its section `docagent`.
    `model` writes the turns, at the temperature of `run` (`play_config`); without an address its
    name is a path to weights.
    """
    if agent.modelled and not model.base_url:
        print(f"docagent-rl: loading {model.model} into vLLM", file=sys.stderr)
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
    sampling = run.actor_rollout_ref.rollout.val_kwargs
    temperature = float(sampling.temperature) if sampling.do_sample else 0.0
    sampled = model.model_copy(update={"temperature": temperature})
    remote = open_model(sampled, "model that plays", None)
    await remote.check()
    return ChatPlayer(resources, ChatModel(remote), chat_limits(run, parsed, seed))


def open_resources(parsed: DocAgentConfig, *, validate: bool) -> EnvResources:
    """Open what environments share, and refuse a configuration that no trajectory could play."""
    from docagent_rl.rollout.env_resources import EnvResources

    resources = EnvResources(parsed, running=False)
    resources.environment(validate=validate)
    return resources


def keep_replies(run: DictConfig, model: ModelConfig, out: Path) -> tuple[DictConfig, ModelConfig]:
    """Return the configuration and the model, set to cache all replies in the run's folder.

    Caches that are already named stay. A trajectory that a spent budget or a kill cuts short is
    played again from its first turn, and the replies already paid for then come from the cache.
    `run` itself does not change: it identifies the run, in whatever folder it is.
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
    """Return the token counter with which a stored run kept texts within its token budgets.

    It uses the tokenizer that the run's configuration names or that its last checkpoint contains.
    A run without a tokenizer, as with a model behind an endpoint, estimated the numbers. For
    anything that is not a run, the estimate is returned, too: reading its trajectories raises the
    error.
    """
    from docagent_rl.envs.token_budget import estimated_tokens
    from docagent_rl.envs.token_offsets import TokenizerCounter
    from docagent_rl.lab.viewer.folder import ViewedRun
    from docagent_rl.lab.viewer.runs import OpenRun

    try:
        tokenizer = OpenRun(0, run.name, ViewedRun(run)).tokenizer
    except UserError:
        return estimated_tokens
    if tokenizer is None:
        return estimated_tokens
    return TokenizerCounter(tokenizer)

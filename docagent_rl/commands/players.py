"""Players of commands: a model behind an endpoint, one in this process, a script, chance."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from docagent_rl.base.errors import UserError
from docagent_rl.lab.eval.choices import Agent

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from docagent_rl.config import DocAgentConfig
    from docagent_rl.endpoints.endpoint import ModelConfig
    from docagent_rl.envs.base import DocEnv
    from docagent_rl.rollout.recorder import Player

    Wrap = Callable[[DocEnv], DocEnv]

ENGINE_TRAJECTORIES = 32
"""Trajectories at a time on an engine, which batches their turns."""


_QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",  # standard output is the command's
    "TOKENIZERS_PARALLELISM": "false",
}


def check_model(agent: Agent, model: ModelConfig) -> None:
    """See that the options say who plays; call it before anything imports vLLM, which is kept quiet.

    Raises:
        UserError: a model is missing, or named in vain.
    """
    if agent.modelled and not model.model:
        raise UserError(
            "name the model that plays: --model with --base-url for one behind an endpoint, or --model PATH "
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
    return min(ENGINE_TRAJECTORIES, int(run.actor_rollout_ref.rollout.max_num_seqs or ENGINE_TRAJECTORIES))


def in_process(agent: Agent, model: ModelConfig) -> bool:
    """Return whether a model writes the turns in this process."""
    return agent.modelled and not model.base_url


def other_documents(player: Player, run: DictConfig) -> Player:
    """Return a player of a model in this process, over another configuration with the same engine.

    Raises:
        UserError: what the configuration names cannot be used.
    """
    from docagent_rl.training.engine.player import EnginePlayer

    assert isinstance(player, EnginePlayer)
    return player.among(run)


async def open_player(
    run: DictConfig,
    parsed: DocAgentConfig,
    agent: Agent,
    model: ModelConfig,
    *,
    seed: int,
    wrap: Wrap | None = None,
) -> Player:
    """Open the player; whoever opens it closes it.

    Args:
        run: the composed configuration, checked.
        parsed: its section `docagent`.
        agent: who plays.
        model: who writes the turns; a path of weights where it has no address.
        seed: of all draws.
        wrap: what a model plays in the place of each environment.

    Raises:
        UserError: something that is named is missing or does not fit.
    """
    if in_process(agent, model):
        # imports torch, vLLM and verl
        from docagent_rl.training.engine.player import EnginePlayer

        return await EnginePlayer.open(run, str(model.model), seed=seed, wrap=wrap)
    from docagent_rl.rollout.env_resources import EnvResources

    resources = EnvResources(parsed, running=False)
    resources.environment(validate=True)  # refuses what no trajectory could play
    if agent is Agent.ORACLE:
        from docagent_rl.lab.agents.scripted import ScriptPlayer

        return ScriptPlayer(resources, seed=seed)
    if agent is Agent.RANDOM:
        from docagent_rl.lab.agents.scripted import ChancePlayer

        return ChancePlayer(resources, seed=seed)
    from docagent_rl.lab.agents.chat import ChatLimits, ChatPlayer
    from docagent_rl.lab.agents.chat_model import EndpointModel

    remote = model.open("model that plays", None)
    await remote.check()
    limits = ChatLimits(
        turn=parsed.rollout.turn_tokens,
        context=int(run.data.max_prompt_length) + int(run.data.max_response_length),
        min_turn=parsed.rollout.min_turn_tokens,
        seed=seed,
    )
    return ChatPlayer(resources, EndpointModel(remote), limits, wrap=wrap)

"""A run's folder with real trajectories of a system's script and of random agents, recorded with
invented ids.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

import yaml
from tokenizers import Tokenizer

from docagent_rl.base.seals import Seal
from docagent_rl.config import DocAgentConfig
from docagent_rl.envs.token_budget import estimated_tokens
from docagent_rl.lab.agents.scripted import ChancePlayer, ScriptPlayer
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.training.trainer.archive import write_trajectories


def stored_run(
    world,
    run: Path,
    system: str,
    *,
    algorithm: dict | None = None,
    questions: int = 4,
    model: Path | None = None,
    **more,
) -> Path:
    """Write two steps of a number of questions, each played by the script once and at random three
    times.

    Texts are counted by the tokenizer in the folder `model`, else estimated. `more` is of the
    section `docagent`.
    """
    docagent = {
        "system": system,
        "workspace": str(world.root),
        "run_dir": str(run),
        "store": str(world.root / "store"),
        "retriever": {"kind": "bm25", "index": str(world.root / "index")},
        "judge": {"kind": "rule"},
        "env": {},
        "advantage": {"options": {}},
        **more,
    }
    plain = {"adv_estimator": "grpo", "gamma": 1.0, "lam": 1.0, "norm_adv_by_std_in_grpo": True}
    config, counter = (
        {"docagent": docagent, "algorithm": plain | (algorithm or {})},
        estimated_tokens,
    )
    if model is not None:
        config["actor_rollout_ref"] = {"model": {"path": str(model)}}
        tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        counter = lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)  # noqa: E731
    resources = EnvResources(DocAgentConfig.parse(docagent), counter, running=False)
    players = [ScriptPlayer(resources, seed=1), *[ChancePlayer(resources, seed=2)] * 3]
    for step in (1, 2):
        samples = world.samples[step : step + questions]
        write_trajectories(run, step, asyncio.run(_played(players, samples, step)))
    Seal(run).write(run / "hydra" / "config.yaml", yaml.safe_dump(config))
    return run


async def _played(players, samples, step) -> list[Trajectory]:
    found = [await player.play(sample, n) for sample in samples for n, player in enumerate(players)]
    for trajectory in found:
        trajectory.step, trajectory.split = step, "train"
        trajectory.turns = [_sampled(turn) for turn in trajectory.turns]
    return found


def _sampled(turn: TrajectoryTurn) -> TrajectoryTurn:
    words = len(turn.text.split())
    return replace(turn, token_ids=[7] * words, log_probs=[-0.5] * words)

"""Every recipe trains under the CPU profile, and each of its reward terms says something."""

from __future__ import annotations

import json

import numpy as np
import pytest

from docagent_rl.recipe_check import composed
from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.recipes import RECIPES, questions, system_of

STEPS = (1, 2)


@pytest.fixture(params=RECIPES, scope="module")
def recipe(request):
    return request.param


@pytest.fixture(scope="module")
def run(runs, recipe):
    return runs.result(recipe)


@pytest.fixture(scope="module")
def metrics(run):
    return [json.loads((run.run_dir / "metrics" / f"{step}.json").read_text()) for step in STEPS]


@pytest.fixture(scope="module")
def sessions(run):
    files = [run.run_dir / "trajectories" / f"{step}.jsonl" for step in STEPS]
    return [session for file in files for session in read_trajectories(file)]


def test_every_reward_term_varies(metrics, sessions, recipe):
    assert {session.system for session in sessions} == {system_of(recipe)}
    names = {name for session in sessions for name in session.metrics if name.startswith("reward/")}
    assert len(names) > 2
    constant = []
    for name in sorted(names):
        low = min(step[f"docagent/{name}/min"] for step in metrics)
        high = max(step[f"docagent/{name}/max"] for step in metrics)
        assert {session.metrics[name] for session in sessions} >= {low, high}
        if low == high:
            constant.append(name)
    assert not constant


def test_sessions_are_played_to_their_ends(metrics, sessions):
    assert all(step["docagent/masked_trajectories"] == 0 for step in metrics)
    assert np.mean([session.metrics["invalid_action_rate"] for session in sessions]) < 0.6
    assert {len(session.turns) for session in sessions} > {1}


def test_the_trainer_sees_the_tokens_of_the_rollout(sessions, recipe):
    gaps = [
        a - b
        for session in sessions
        for turn in session.turns
        if turn.trainer_log_probs
        for a, b in zip(turn.log_probs, turn.trainer_log_probs, strict=True)
    ]
    assert len(gaps) > 100
    # the server's log-probs are those after truncation to top_p
    top_p = composed(recipe, ["+profile=cpu"]).actor_rollout_ref.rollout.top_p
    assert np.abs(gaps).max() < 1e-3 - np.log(top_p)


def test_policy_and_critic_are_updated(metrics, recipe):
    config = composed(recipe, ["+profile=cpu"])
    for step in metrics:
        assert np.isfinite(step["actor/grad_norm"])
        assert np.isfinite(step["critic/advantages/mean"])
    assert any(step["actor/grad_norm"] > 0 for step in metrics)
    if config.critic.enable:
        assert all(step["critic/vf_loss"] > 0 for step in metrics)
    if config.docagent.kl.observation.coef > 0:
        names = ("actor/kl_generated", "actor/kl_observation", "actor/kl_visual", "actor/entropy")
        assert all(np.isfinite(step[name]) for step in metrics for name in names)
    if config.algorithm.adv_estimator == "spo":
        assert all(step["docagent/embedded_texts"] == 4 * questions(recipe) for step in metrics)


def test_turns_are_reported(metrics, sessions, recipe):
    critic = bool(composed(recipe, ["+profile=cpu"]).critic.enable)
    names = ["sessions", "reward", "advantage", *(["value", "target"] if critic else [])]
    for step in metrics:
        assert all(np.isfinite(step[f"turns/{name}/{k}"]) for name in names for k in (1, 2))
        assert ("turns/value/1" in step) == critic
    longest = max(len(session.turns) for session in sessions)
    assert {f"turns/sessions/{longest}"} & (metrics[0].keys() | metrics[1].keys())

"""A recipe of each system and each estimator trains on the CPU, and each of its reward terms
varies.
"""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.lab.viewer.credit import trajectory_credit
from docagent_rl.models import get_family
from docagent_rl.training.trainer.rollout_correction import APART
from docagent_rl.training.trainer.stored_credit import Crediting
from tests.e2e.conftest import RECIPE
from tests.e2e.grpo import played_by
from tests.e2e.ranks import saved_weights
from tests.e2e.recipes import RECIPES, REJECTING, configuration, questions, steps, system_of

pytestmark = pytest.mark.core


@pytest.fixture(params=RECIPES, scope="module")
def recipe(request):
    return request.param


@pytest.fixture(scope="module")
def run(runs, recipe):
    return runs.result(recipe)


@pytest.fixture(scope="module")
def metrics(run, recipe):
    return [run.metrics(step) for step in steps(recipe)]


@pytest.fixture(scope="module")
def trajectories(run, recipe):
    return run.trajectories(*steps(recipe))


def test_every_reward_term_varies(metrics, trajectories, recipe):
    assert {trajectory.system for trajectory in trajectories} == {system_of(recipe)}
    names = {
        name
        for trajectory in trajectories
        for name in trajectory.metrics
        if name.startswith("reward/")
    }
    assert len(names) > 2
    for name in sorted(names):
        low = min(step[f"docagent/{name}/min"] for step in metrics)
        high = max(step[f"docagent/{name}/max"] for step in metrics)
        assert {trajectory.metrics[name] for trajectory in trajectories} >= {low, high}
        assert low < high or recipe == REJECTING, name


def test_server_and_trainer_agree_about_what_was_sampled(metrics):
    # one of them samples from nine tenths of the mass: up to log(1 / 0.9)
    assert all(abs(step[APART]) < 0.11 for step in metrics)


def test_trajectories_are_played_to_their_ends(metrics, trajectories):
    assert all(step["docagent/masked_trajectories"] == 0 for step in metrics)
    assert np.mean([trajectory.metrics["invalid_action_rate"] for trajectory in trajectories]) < 0.6
    assert len({len(trajectory.turns) for trajectory in trajectories}) > 1


def test_the_trainer_sees_the_tokens_of_the_rollout(run, trajectories, recipe):
    if recipe == RECIPE:  # others are misplaced on purpose
        trajectories = played_by("docagent", run, trajectories)
    gaps = [
        a - b
        for trajectory in trajectories
        for turn in trajectory.turns
        if turn.trainer_log_probs
        for a, b in zip(turn.log_probs, turn.trainer_log_probs, strict=True)
    ]
    assert len(gaps) > 100
    # the server's log-probs are those after truncation to top_p
    top_p = configuration(recipe).actor_rollout_ref.rollout.top_p
    assert np.abs(gaps).max() < 1e-3 - np.log(top_p)


def test_policy_and_critic_are_updated(metrics, recipe):
    config = configuration(recipe)
    for step in metrics:
        assert np.isfinite(step["actor/grad_norm"])
        assert np.isfinite(step["critic/advantages/mean"])
    assert is_updated(metrics)
    if config.critic.enable:
        assert all(step["critic/vf_loss"] > 0 for step in metrics)
    if config.docagent.kl.observation.coef > 0:
        names = ("actor/kl_generated", "actor/kl_observation", "actor/kl_visual", "actor/entropy")
        assert all(np.isfinite(step[name]) for step in metrics for name in names)
    if config.algorithm.adv_estimator == "spo":
        assert all(step["docagent/embedded_texts"] == 4 * questions(recipe) for step in metrics)


ROUNDING = 1e-4
"""Norm of a gradient in which nothing is learned; others are above a hundredth."""


def is_updated(metrics):
    """Return whether the policy was updated; it is not if all trajectories of each question have
    the same reward.

    Then the KL to the reference alone may move it, which is rounding where both are one model (on
    two ranks).
    """
    for step in metrics:
        varies = step["critic/advantages/min"] < step["critic/advantages/max"]
        assert step["actor/grad_norm"] > 0 if varies else step["actor/grad_norm"] < ROUNDING
    return any(step["actor/grad_norm"] > 0 for step in metrics)


def test_the_vision_tower_moves_unless_it_is_frozen(run, metrics, recipe):
    """The last checkpoint is compared with the first weights, for the policy's tower and, if there
    is one, the critic's.
    """
    config = configuration(recipe)
    frozen = bool(config.actor_rollout_ref.actor.freeze_vision_tower)
    family = config.docagent.model_family
    kind = AutoModelForImageTextToText if get_family(family).vision else AutoModelForCausalLM
    start = kind.from_pretrained(
        DemoPaths(run.workspace).model(system_of(recipe), family)
    ).state_dict()
    folder = run.run_dir / "checkpoints" / f"global_step_{steps(recipe)[-1]}"
    for role in ("actor", "critic") if config.critic.enable else ("actor",):
        changed = dict.fromkeys(("visual", "language"), 0)
        for name, value in saved_weights(folder / role):
            # a value model holds the model it was made of under a prefix
            before = start.get(name.removeprefix("pretrained_model."))
            if before is not None:
                part = "visual" if ".visual." in name else "language"
                changed[part] += not torch.equal(value, before)
        updated = role == "critic" or is_updated(metrics)
        assert (changed["language"] > 0) == updated, role
        # MM-Doc-R1's policy sees no image
        trained = system_of(recipe) != "mm_doc_r1" and not frozen
        assert (changed["visual"] > 0) == (trained and updated), role


def test_turns_are_reported(metrics, trajectories, recipe):
    critic = bool(configuration(recipe).critic.enable)
    names = ["trajectories", "reward", "advantage", *(["value", "target"] if critic else [])]
    for step in metrics:
        assert all(np.isfinite(step[f"turns/{name}/{k}"]) for name in names for k in (1, 2))
        assert ("turns/value/1" in step) == critic
    longest = max(len(trajectory.turns) for trajectory in trajectories)
    assert any(f"turns/trajectories/{longest}" in step for step in metrics)


def test_what_the_estimator_made_of_each_turn_is_kept(run, trajectories, recipe):
    """The viewer reads the same credit, and `rescore` computes it again from the stored
    trajectories.
    """
    config = configuration(recipe)
    if recipe == REJECTING:
        return  # what was rejected has none
    last = [trajectory for trajectory in trajectories if trajectory.step == steps(recipe)[-1]]
    told = []
    for trajectory in last:
        credit = trajectory_credit(run.run_dir, trajectory.step, trajectory.uid, trajectory.number)
        told.append(credit.described(json.loads(trajectory.to_json())["turns"]))
    stored = [[turn["advantage"] for turn in each["turns"]] for each in told]
    assert all(value is not None for turns in stored for value in turns)
    if config.critic.enable:
        values = [turn["value"] for each in told for turn in each["turns"]]
        assert len(set(values)) > len(last)
    if config.algorithm.adv_estimator == "spo":
        for trajectory, each in zip(last, told, strict=True):
            likeness = each["similarities"]
            assert len(likeness) == config.actor_rollout_ref.rollout.n
            assert likeness[str(trajectory.number)] == pytest.approx(1, abs=1e-3)
    crediting = Crediting(config, DocAgentConfig.parse(plain_section(config.docagent)).advantage)
    if crediting.possible:
        again = crediting.turns(last)
        for ours, theirs in zip(stored, again, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-4)

import pytest
import torch

from docagent_rl.advantages import Advantages, Need, registered_estimators
from docagent_rl.advantages.inputs import Discounts
from docagent_rl.advantages.registry import Estimator
from docagent_rl.advantages.rehearsal import made_up_inputs, rehearse
from docagent_rl.base.errors import UserError


def estimator(function, *needs) -> Estimator:
    return Estimator("mine", function, frozenset(needs))


def zeros(inputs) -> Advantages:
    return Advantages(torch.zeros(inputs.mask.shape), torch.zeros(inputs.mask.shape))


@pytest.mark.parametrize(
    "name", ["turn_gae", "token_gae", "spo", "spo_prefix", "trajectory_grpo", "turn_grpo"]
)
@pytest.mark.parametrize("trajectories", [1, 2, 5])
def test_built_in_estimators_pass(name, trajectories):
    assert rehearse(registered_estimators()[name], {}, trajectories=trajectories) is None


def test_the_batch_holds_what_is_needed():
    plain = made_up_inputs(set(), discounts=Discounts(gamma_turn=0.5))
    assert plain.group.tolist() == [0, 0, 1, 1]
    assert plain.discounts == Discounts(gamma_turn=0.5)
    assert plain.step is plain.prefix_embeddings is None
    assert plain.values is None
    assert plain.embeddings is None
    full = made_up_inputs(set(Need), trajectories=3)
    assert full.values.shape == full.mask.shape
    assert len(full.embeddings) == len(full.texts) == 6
    assert full.group.tolist() == [0, 0, 0, 1, 1, 1]
    totals = full.token_rewards.sum(1)
    assert len(totals.unique()) == 6
    # two turns with an observation between them, or one
    turns = [[0, 0, -1, -1, 1, 1, 1], [0, 0, 0, -1, 1, 1, -1], [0, 0, -1, -1, -1, -1, -1]]
    assert full.turn_index.tolist() == full.step.tolist() == turns * 2
    ends = [[1, 6], [2, 5], [1]] * 2
    assert [row.nonzero()[:, 0].tolist() for row in full.token_rewards > 0] == ends
    assert torch.equal(full.terms["any name"], full.token_rewards)
    assert list(full.terms) == ["total"] * len(full.terms)
    prefixes = full.prefix_embeddings
    assert prefixes.shape == (6, 3, full.embeddings.shape[1])
    torch.testing.assert_close(prefixes.norm(dim=-1), torch.ones(6, 3))
    assert not torch.isclose(prefixes[:, 1:], prefixes[:, :-1]).all(-1).any()


def test_a_critic_that_runs_is_there_though_not_needed():
    seen = []

    def function(inputs):
        seen.append((inputs.values is not None, inputs.discounts.lam_turn))
        return zeros(inputs)

    rehearse(estimator(function), {})
    rehearse(estimator(function), {}, critic=True, discounts=Discounts(lam_turn=0.5))
    assert seen == [(False, 1.0), (True, 0.5)]


def test_a_large_group_is_not_played_in_full():
    sizes = []

    def function(inputs):
        sizes.append(len(inputs.trajectory))
        return zeros(inputs)

    rehearse(estimator(function), {})
    rehearse(estimator(function), {}, trajectories=3)
    rehearse(estimator(function), {}, trajectories=1000)
    assert sizes == [4, 6, 16]


@pytest.mark.parametrize("error", [TypeError, NameError, AttributeError, UserError])
def test_mistakes_of_the_code_are_refused(error):
    def function(inputs):
        raise error("what is wrong")

    with pytest.raises(UserError, match="what is wrong"):
        rehearse(estimator(function), {})


@pytest.mark.parametrize("error", [ValueError, RuntimeError, AssertionError, ZeroDivisionError])
def test_what_may_depend_on_the_numbers_is_reported(error):
    def function(inputs):
        raise error("groups of 64 at least")

    found = rehearse(estimator(function), {})
    assert found.startswith(
        f"estimator mine fails on a made-up batch: {error.__name__}: groups of 64 at least ("
    )
    assert found.endswith(f"{__file__}, line {function.__code__.co_firstlineno + 1})")


def test_numbers_that_are_not_finite_are_reported():
    def function(inputs):
        return Advantages(inputs.token_rewards / 0, inputs.token_rewards)

    found = rehearse(estimator(function), {})
    assert (
        found == "estimator mine: advantages is not finite on a sampled token, on a made-up batch"
    )

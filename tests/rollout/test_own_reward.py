"""The user's reward function at the end of a trajectory: its arguments, and where its value is
added.
"""

import json
import math
from dataclasses import replace

import pytest

from docagent_rl.envs.base import OutcomeMetrics, RewardTerms, TokenTerm
from docagent_rl.envs.outcome import Outcome
from docagent_rl.lab.agents.texts import play_texts, whole_turn
from docagent_rl.rewards.custom.config import RewardFunctionConfig
from docagent_rl.rewards.custom.function import RewardFunction, RewardFunctionError
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.rollout.own_reward import ground_truth
from docagent_rl.rollout.recorder import NotFiniteError, new_trajectory
from tests.rollout.stage import search
from tests.rollout.test_rollout import Rewarding

TOLD = []
"""The arguments of the functions of these tests, call by call."""
HEAD = "def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
KEEPING = (
    "from tests.rollout.test_own_reward import TOLD\n"
    f"{HEAD}"
    "    TOLD.append((data_source, solution_str, ground_truth, extra_info))\n"
    "    return {'score': 3.0, 'length': len(solution_str)}\n"
)
EASYR1 = (
    "from tests.rollout.test_own_reward import TOLD\n"
    "def compute_score(reward_inputs):\n"
    "    TOLD.append(reward_inputs)\n"
    "    return [{'overall': each['response_length']} for each in reward_inputs]\n"
)


@pytest.fixture
def function(tmp_path):
    TOLD.clear()

    def make(text, **settings):
        (tmp_path / "mine.py").write_text(text)
        return RewardFunction(RewardFunctionConfig(path=str(tmp_path / "mine.py"), **settings))

    return make


async def played(stage, function, last=None):
    """Play a trajectory whose answer is right, or with another last turn."""
    rollout = stage.rollout(
        [search("report"), last or f"<answer>{stage.sample.answers[0]}</answer>"]
    )
    rollout.env.outcome_metrics = OutcomeMetrics("reward/outcome", "reward/format")
    rollout.env.reward_function = function
    ledgers = await rollout.play(stage.sample)
    return rollout.trajectory, [ledger.row() for ledger in ledgers]


async def test_it_is_told_of_the_answer_and_the_trajectory_once(stage, function):
    trajectory, _ = await played(stage, function(KEEPING))
    ((source, solution, truth, told),) = TOLD
    assert (source, solution) == (stage.sample.dataset, stage.sample.answers[0])
    assert truth == ground_truth(stage.sample)
    record = told.pop("trajectory")
    assert told.pop("num_turns") == 2
    assert told == json.loads(json.dumps(stage.sample.to_dict()))
    # the trajectory as it ended, with the system's own numbers, before the function's
    assert (record["end"], record["status"]) == ("answered", "finished")
    assert [turn["text"] for turn in record["turns"]] == [turn.text for turn in trajectory.turns]
    assert record["reward"] == pytest.approx(record["metrics"]["reward/total"])
    assert "reward/compute_score" not in record["metrics"]


@pytest.mark.parametrize("weight", [1.0, 0.5, 0.0])
async def test_beside_it_is_added_on_the_last_sampled_token(stage, function, weight):
    trajectory, (row,) = await played(stage, function(KEEPING, weight=weight))
    own = trajectory.metrics["reward/total"]
    assert own > 0
    assert trajectory.reward == pytest.approx(own + 3.0 * weight)
    assert row.rewards[-1] == pytest.approx(own + 3.0 * weight)
    assert not any(row.rewards[:-1])
    assert trajectory.turns[-1].reward == pytest.approx(own + 3.0 * weight)
    # its numbers as they were returned, among the terms of the turn and the numbers of the
    # trajectory
    assert (
        trajectory.turns[-1].terms["compute_score"]
        == trajectory.metrics["reward/compute_score"]
        == 3.0
    )
    assert trajectory.metrics["reward/compute_score.length"] == len(stage.sample.answers[0])
    timed = ["reward_function" in turn.seconds for turn in trajectory.turns]
    assert timed == [False] * (len(timed) - 1) + [True]


async def test_in_place_it_is_the_only_reward_and_the_terms_stay(stage, function):
    plain, _ = await played(stage, None)
    trajectory, (row,) = await played(stage, function(KEEPING, mode="replace", weight=2.0))
    assert plain.reward > 0
    assert trajectory.reward == row.rewards[-1] == 6.0
    assert trajectory.turns[-1].reward == 6.0
    own = {name: value for name, value in trajectory.metrics.items() if "compute_score" not in name}
    assert own == pytest.approx(plain.metrics)
    assert plain.turns[-1].terms.items() <= trajectory.turns[-1].terms.items()
    assert trajectory.outcome == plain.outcome == Outcome.of(1.0)
    assert trajectory.well_formed is plain.well_formed is True


async def test_in_place_no_turn_and_no_token_of_any_context_keeps_a_reward(stage, function):
    plan = [(True, 1.0, -0.5, 2.0), (False, 2.0, 0.25, -1.0), (False, 4.0, 0.0, 1.0)]
    said = ["a word here", "another word there", "the last word"]
    for mode, reward in (("replace", 3.0), ("beside", 3.0 + 7.0 - 1.0 - 0.25)):
        rollout = stage.rollout(said)
        rollout.env = Rewarding(plan)
        rollout.env.reward_function = function(KEEPING, mode=mode)
        first, second = [ledger.row() for ledger in await rollout.play(stage.sample)]
        trajectory = rollout.trajectory
        assert trajectory.reward == pytest.approx(reward)
        assert math.fsum([*first.rewards, *second.rewards]) == pytest.approx(reward)
        assert second.rewards[-1] == pytest.approx(3.0 if mode == "replace" else 7.0)
        # the values of terms are those before any weight, whatever rewards
        assert [turn.terms["penalty"] for turn in trajectory.turns] == [-0.5, 0.25, 0.0]
        assert [len(turn.token_terms) for turn in trajectory.turns] == [1, 1, 0]
        if mode == "replace":
            assert not any(first.rewards)
            assert [turn.reward for turn in trajectory.turns] == [0.0, 0.0, 3.0]


async def test_without_an_answer_the_solution_is_empty(stage, function):
    rollout = stage.rollout(["nothing of the kind"] * 9)
    rollout.env.reward_function = function(KEEPING)
    await rollout.play(stage.sample)
    trajectory = rollout.trajectory
    assert trajectory.end == "turn_limit"
    ((_, solution, _, told),) = TOLD
    assert (solution, told["trajectory"]["end"]) == ("", trajectory.end)


async def test_a_list_of_inputs_has_the_sampled_tokens(stage, function):
    trajectory, _ = await played(stage, function(EASYR1, mode="replace"))
    sampled = sum(len(turn.token_ids) for turn in trajectory.turns)
    (((told,),),) = [TOLD]
    assert (told["response"], told["response_length"]) == (stage.sample.answers[0], sampled)
    assert told["ground_truth"] == ground_truth(stage.sample)
    assert told["data_source"] == stage.sample.dataset
    assert told["extra_info"]["question_id"] == stage.sample.question_id
    assert trajectory.reward == sampled


async def test_what_it_changes_changes_nothing(stage, function):
    body = "extra_info['trajectory']['turns'].clear(); extra_info['answers'].clear(); return 1"
    before = stage.sample.to_dict()
    trajectory, _ = await played(stage, function(f"{HEAD}    {body}\n"))
    assert len(trajectory.turns) == 2
    assert trajectory.sample == before == stage.sample.to_dict()


@pytest.mark.parametrize(
    "body", ["raise KeyError('unit')", "return float('inf')", "return {'acc': 1}"]
)
async def test_what_it_does_wrong_names_the_question_and_is_no_reward(stage, function, body):
    with pytest.raises(
        RewardFunctionError, match=rf"question '{stage.sample.question_id}': .*compute_score"
    ):
        await played(stage, function(f"{HEAD}    {body}\n"))


async def test_texts_are_played_alike(stage, function):
    """Agents without tokens, as in `eval`, `collect` and `rescore`, give the same result."""
    texts = [search("report"), "<answer>41</answer>"]
    found = {}
    for mode in (None, "beside", "replace"):
        env = stage.rollout([]).env
        env.reward_function = mode and function(KEEPING, mode=mode)

        async def write(trajectory):
            return whole_turn(texts[len(trajectory.turns)])

        found[mode] = await play_texts(
            env, stage.sample, write, new_trajectory(stage.sample, 0, "vrag_rl")
        )
    assert found["beside"].reward == pytest.approx(found[None].reward + 3.0)
    assert found["replace"].reward == 3.0
    assert found["replace"].metrics["reward/compute_score"] == 3.0
    assert len(TOLD) == 2


def test_right_answers_have_the_form_that_judges_take(world):
    sample = replace(world.samples[0], answers=("41",), answer_format="string", answerable=True)
    assert ground_truth(sample) == "41"
    assert ground_truth(replace(sample, answers=("41", "forty-one"))) == ["41", "forty-one"]
    assert ground_truth(replace(sample, answers=("a", "b"), answer_format="list")) == "a; b"
    assert ground_truth(replace(sample, answers=(), answerable=False)) == NOT_ANSWERABLE
    assert ground_truth(replace(sample, answers=(), answerable=None)) == []


class Broken(Rewarding):
    """An environment with one value that is not a finite number."""

    def __init__(self, terms=None, numbers=None):
        super().__init__([(False, 0.0, 0.0, 1.0)] * 2)
        self.terms, self.numbers = terms or RewardTerms(), numbers or {}

    async def step(self, turn):
        result = await super().step(turn)
        return replace(result, terms=self.terms) if result.done else result

    def metrics(self):
        return self.numbers


def charge(value, weight=1.0):
    return TokenTerm("charge", (0, 2), value, weight)


@pytest.mark.parametrize(
    ("terms", "numbers", "named"),
    [
        (RewardTerms({"bonus": math.nan}), {}, "turn 2, reward term 'bonus' is nan"),
        (RewardTerms({"bonus": -math.inf}), {}, "turn 2, reward term 'bonus' is -inf"),
        (RewardTerms({"bonus": "high"}), {}, "turn 2, reward term 'bonus' is high"),
        (RewardTerms({}, math.nan), {}, "turn 2, reward term 'the reward of the turn' is nan"),
        (RewardTerms({}, 1e39), {}, "turn 2, reward term 'the reward of the turn' is 1e[+]39"),
        (RewardTerms(tokens=(charge(math.nan),)), {}, "'charge' is nan"),
        (
            RewardTerms(tokens=(TokenTerm("charge", (0, 2), 1.0, math.inf),)),
            {},
            "'weight of charge' is inf",
        ),
        (None, {"reward/bonus": math.nan}, "metric 'reward/bonus' is nan"),
    ],
)
async def test_numbers_of_a_system_that_are_none_are_named(stage, terms, numbers, named):
    """They were written as NaN, which is no JSON, and ended the run without question and term."""
    rollout = stage.rollout(["one word", "another word"])
    rollout.env = Broken(terms, numbers)
    wanted = rf"question '{stage.sample.question_id}', .*{named}.*system 'vrag_rl'"
    with pytest.raises(NotFiniteError, match=wanted):
        await rollout.play(stage.sample)

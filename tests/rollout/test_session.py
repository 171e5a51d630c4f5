from __future__ import annotations

import pytest

from docagent_rl.envs.base import (
    DocEnv,
    EndReason,
    Message,
    Observation,
    RewardTerms,
    Role,
    StepResult,
    TextPart,
    TokenTerm,
)
from docagent_rl.envs.delivery import render
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.envs.vrag_rl import VragEnv
from docagent_rl.envs.vrag_rl_config import VragConfig
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.rewards.judge import JudgeConfig, make_judge
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import ImageEncoder
from docagent_rl.rollout.ledger import NO_TURN
from docagent_rl.rollout.session import Limits, Sampled, Session, split_stop
from docagent_rl.rollout.trajectory import Status, Trajectory

LIMITS = Limits(prompt=2000, response=3000, turn=200)
SMALL = {"display": {"min_pixels": 12544, "max_pixels": 50176}}


class Script:
    """A rollout server that says given lines, and keeps what it was shown."""

    def __init__(self, codec, lines, close=True):
        self.codec, self.lines, self.close = codec, list(lines), close
        self.contexts, self.images, self.caps = [], [], []

    async def __call__(self, ids, images, max_tokens):
        self.contexts.append(ids)
        self.images.append(images)
        self.caps.append(max_tokens)
        line = self.lines.pop(0)
        sampled = (
            line if isinstance(line, list) else self.codec.tokenizer.encode(line, add_special_tokens=False)
        )
        if self.close and not isinstance(line, list):
            sampled = [*sampled, self.codec.end_of_turn_id]
        return Sampled(sampled[:max_tokens], [-0.25] * len(sampled[:max_tokens]))


class Stage:
    def __init__(self, world, processor):
        self.world, self.processor = world, processor
        self.codec = ChatCodec(processor.tokenizer, processor)
        self.encoder = ImageEncoder(processor, lambda ref: render(ref, world.store))
        self.sample = world.records[0]

    def env(self, retriever=None, **config) -> DocEnv:
        service = RetrieverService(retriever or self.world.retriever, attempts=1, backoff_s=0.01)
        services = EnvServices(self.world.store, service, make_judge(JudgeConfig()))
        return VragEnv(VragConfig.for_variant("paper", **SMALL, **config), services)

    def session(self, lines, *, limits=LIMITS, close=True, **env):
        trajectory = Trajectory("u", 0, 1, "train", self.sample.to_dict(), "vrag_rl")
        generate = Script(self.codec, lines, close)
        return Session(self.env(**env), self.codec, self.encoder, generate, limits, trajectory)


@pytest.fixture
def stage(world, processor):
    return Stage(world, processor)


def search(text):
    return f"<think>look</think><search>{text}</search>"


async def test_a_session_from_search_to_answer(stage):
    answer = stage.sample.answers[0]
    session = stage.session(
        [search(stage.sample.question), "<bbox>[10, 10, 120, 120]</bbox>", f"<answer>{answer}</answer>"]
    )
    (ledger,) = await session.play(stage.sample)
    trajectory, row = session.trajectory, ledger.row()
    assert trajectory.status == Status.FINISHED.value
    assert trajectory.end == "answered"
    assert [t.stop for t in trajectory.turns] == ["end_of_turn"] * 3
    assert len(row.images) == 2
    assert row.response_ids.count(stage.codec.image_token_id) == sum(i.num_tokens for i in row.images)
    assert trajectory.metrics["reward/outcome"] == 1.0
    assert trajectory.reward == pytest.approx(sum(row.rewards)) == trajectory.metrics["reward/total"]
    assert row.rewards[-1] == trajectory.reward  # the last sampled token, which ends the row
    assert row.turn_index[-1] == 2
    assert trajectory.image_preprocessings == 2


async def test_what_the_server_sees_is_what_is_trained(stage):
    session = stage.session([search("report"), search("table"), "<answer>x</answer>"])
    (ledger,) = await session.play(stage.sample)
    row, script = ledger.row(), session.generate
    whole = row.prompt_ids + row.response_ids
    for context in script.contexts:
        assert whole[: len(context)] == context
    assert [len(images) for images in script.images] == [0, 1, 2]


async def test_a_page_opened_again_is_not_preprocessed_again(stage):
    first = stage.session([search(stage.sample.question), "<answer>x</answer>"])
    second = stage.session([search(stage.sample.question), "<answer>x</answer>"])
    await first.play(stage.sample)
    await second.play(stage.sample)
    assert first.trajectory.image_preprocessings == 1
    assert second.trajectory.image_preprocessings == 0


async def test_without_any_image(stage):
    session = stage.session(["<answer>42</answer>"])
    row = (await session.play(stage.sample))[0].row()
    assert row.images == ()
    assert stage.codec.image_token_id not in row.response_ids
    assert set(row.turn_index) == {0}


async def test_an_observation_that_does_not_fit_is_dropped_and_its_page_was_never_shown(stage):
    turn = len(stage.codec.tokenizer.encode(search("report"), add_special_tokens=False)) + 1
    limits = Limits(prompt=2000, response=turn + 10, turn=200, min_turn=4)
    session = stage.session([search("report")], limits=limits)
    (ledger,) = await session.play(stage.sample)
    trajectory = session.trajectory
    assert trajectory.end == "context_full"
    assert trajectory.status == Status.UNFINISHED.value
    assert trajectory.turns[0].dropped
    assert trajectory.turns[0].observation_tokens == 0
    assert trajectory.metrics["pages_seen"] == 0
    assert trajectory.metrics["reward/retrieval_ndcg"] == 0
    assert ledger.row().images == ()
    assert NO_TURN not in ledger.row().turn_index


async def test_the_turn_limit_ends_the_session(stage):
    session = stage.session([search(w) for w in ("report", "table", "chart", "revenue", "page", "more")])
    await session.play(stage.sample)
    assert len(session.trajectory.turns) == 5
    assert session.trajectory.end == "turn_limit"


async def test_caps_follow_the_room(stage):
    session = stage.session(["<answer>x</answer>"], limits=Limits(prompt=2000, response=7, turn=200))
    await session.play(stage.sample)
    assert session.generate.caps == [7]
    assert session.trajectory.turns[0].stop == "truncated"


async def test_a_sampled_control_id_is_dropped_and_the_turn_invalid(stage):
    start = stage.codec.tokenizer.convert_tokens_to_ids("<|im_start|>")
    ids = [*stage.codec.tokenizer.encode("<search>table</search>", add_special_tokens=False), start]
    session = stage.session([ids, "<answer>x</answer>"])
    (ledger,) = await session.play(stage.sample)
    first = session.trajectory.turns[0]
    assert first.stop == "control_token"
    assert start not in first.token_ids
    assert session.trajectory.metrics["invalid_actions"] == 1
    assert [*first.token_ids, stage.codec.end_of_turn_id] == ledger.row().response_ids[
        : len(first.token_ids) + 1
    ]


async def test_a_prompt_that_is_too_long_names_the_question(stage):
    session = stage.session(["x"], limits=Limits(prompt=5, response=100, turn=10))
    with pytest.raises(UserError, match=stage.sample.question_id):
        await session.play(stage.sample)


async def test_a_retriever_that_fails_is_an_infrastructure_fault(stage):
    class Broken:
        def search(self, queries, **kwargs):
            raise OSError("connection refused")

    session = stage.session([search("report")], retriever=Broken())
    with pytest.raises(InfrastructureError, match="connection refused"):
        await session.play(stage.sample)


async def test_the_same_outputs_give_the_same_trajectory(stage):
    def frozen(trajectory):
        for turn in trajectory.turns:
            turn.seconds = {}
            turn.info.pop("seconds", None)
        trajectory.image_preprocessings = 0
        return trajectory.to_json()

    lines = [search("report table"), "<bbox>[0, 0, 60, 60]</bbox>", "nothing", "<answer>x</answer>"]
    sessions = [stage.session(lines) for _ in range(2)]
    for session in sessions:
        await session.play(stage.sample)
    first, second = (frozen(s.trajectory) for s in sessions)
    assert first == second


def test_split_stop():
    assert split_stop(Sampled([5, 6, 1], [0.1, 0.2, 0.3]), 1, frozenset({2}))[0] == [5, 6, 1]
    ids, log_probs, stop = split_stop(Sampled([5, 2, 6], [0.1, 0.2, 0.3]), 1, frozenset({2}))
    assert (ids, log_probs, stop.value) == ([5], [0.1], "control_token")
    assert split_stop(Sampled([5, 6]), 1, frozenset({2}))[2].value == "truncated"
    assert split_stop(Sampled([2]), 1, frozenset({2}))[0] == []


class Steps(DocEnv):
    """Every turn is answered by a new context; the words of a turn cost something."""

    def __init__(self, turns):
        self.turns, self.seen = turns, []

    def reset(self, sample):
        return Observation.user(TextPart("step 0"))

    async def step(self, turn):
        self.seen.append(turn.text)
        start = turn.text.index("word")
        terms = RewardTerms({"bonus": 1.0}, 1.0, (TokenTerm("penalty", (start, start + 4), -0.5),))
        if len(self.seen) == self.turns:
            return StepResult(None, end=EndReason.FINISHED, terms=terms)
        message = Message(Role.USER, (TextPart(f"step {len(self.seen)}"),))
        return StepResult(Observation((message,), fresh=True), terms=terms)

    async def conclude(self, reason):
        return RewardTerms()

    def metrics(self):
        return {}


async def test_fresh_contexts_become_rows_of_their_own(stage):
    session = stage.session(["a word here", "another word there", "the last word"])
    session.env = Steps(3)
    ledgers = await session.play(stage.sample)
    rows = [ledger.row() for ledger in ledgers]
    assert len(rows) == 3
    assert all(set(row.response_mask) == {1} for row in rows)
    assert [stage.codec.decode(row.response_ids) for row in rows] == session.env.seen
    assert [turn.row for turn in session.trajectory.turns] == [0, 1, 2]
    assert session.trajectory.status == Status.FINISHED.value
    assert [row.prompt_ids for row in rows] == [
        stage.codec.prompt_ids(Observation.user(TextPart(f"step {n}"))) for n in range(3)
    ]


async def test_token_terms_land_on_the_tokens_of_their_span(stage):
    session = stage.session(["first a word and more"])
    session.env = Steps(1)
    (ledger,) = await session.play(stage.sample)
    row = ledger.row()
    hit = [n for n, r in enumerate(row.rewards[:-1]) if r]
    assert "word" in stage.codec.decode([row.response_ids[n] for n in hit])
    assert sum(row.rewards[:-1]) == pytest.approx(-0.5)
    assert row.rewards[-1] == 1.0
    assert session.trajectory.reward == pytest.approx(0.5)
    assert session.trajectory.turns[0].terms == {"penalty": -0.5, "bonus": 1.0}


async def test_a_fresh_context_that_is_too_long_ends_the_session(stage):
    session = stage.session(["a word here"], limits=Limits(prompt=22, response=100, turn=20))
    session.env = Steps(2)
    session.env.reset = lambda sample: Observation((Message(Role.USER, (TextPart("s"),)),))
    session.limits = Limits(
        prompt=len(stage.codec.prompt_ids(session.env.reset(None))), response=100, turn=20
    )
    ledgers = await session.play(stage.sample)
    assert len(ledgers) == 1
    assert session.trajectory.end == "context_full"

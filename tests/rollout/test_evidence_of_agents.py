"""Agents that fail in a known way, in real environments: the funnel says of each how it fails."""

import re
from dataclasses import replace

import pytest

from docagent_rl.envs.outcome import ACCURACY, UNJUDGED, UNJUDGED_SHARE, Outcome
from docagent_rl.envs.script import Act, Move
from docagent_rl.lab.agents.scripted import state_of
from docagent_rl.lab.agents.texts import play_texts
from docagent_rl.lab.agents.texts import whole_turn as text_of
from docagent_rl.lab.viewer.funnel import counts_of, lost_at
from docagent_rl.rollout.evidence import Branch, Stage, shares
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.systems import SYSTEMS
from docagent_rl.systems.mm_doc_r1.roles import RolePlayers
from tests.lab.agents.stage import resources

WRONG = "no such thing"


def oracle(state, writer):
    act = writer.right(state)
    return replace(act, move=Move.ANSWER, text=state.answer) if act.move is Move.FINISH else act


def blind(state, writer):
    return Act(Move.ANSWER, text=WRONG)


def lost(state, writer):
    return Act(Move.SEARCH, query="xyzzy") if state.turn == 1 else blind(state, writer)


def guesser(state, writer):
    return replace(lost(state, writer), text=state.answer)


async def play(shared, sample, agent, said, *, validate=True, spoil=str):
    writer, state = shared.system.make_agent(shared.env_config), state_of(shared, sample, "0")

    async def write(trajectory):
        if trajectory.turns:
            state.turn, state.info = len(trajectory.turns) + 1, trajectory.turns[-1].info
            writer.look(state)
        act = agent(state, writer)
        said["answer"] = act.text
        if act.move is Move.SEARCH:
            act, state.searches = replace(act, query=act.query or sample.question), state.searches + 1
        if act.move is Move.ANSWER and Move.FINISH in writer.legal(state):
            act = replace(act, move=Move.FINISH)
        state.magnified.update(act.pages if act.move is Move.CROP else ())
        written = text_of(writer.write(act, state))
        return replace(written, text=spoil(written.text))

    made = new_trajectory(sample, 0, shared.system.name)
    return await play_texts(shared.environment(validate=validate), sample, write, made)


@pytest.fixture
def said(monkeypatch):
    """What the agent wants to say, where another one writes the answer."""
    known = {}

    async def answer(self, question, evidence):
        return known["answer"]

    async def extract(self, question, answer):
        return f"Extracted answer: {answer.replace(',', '')}\nAnswer format: String"

    monkeypatch.setattr(RolePlayers, "answer", answer)
    monkeypatch.setattr(RolePlayers, "extract", extract)
    return known


DIAGNOSES = {
    oracle: (None, Stage.RIGHT),
    blind: (Stage.SOUGHT, Stage.ALL),
    lost: (Stage.FOUND, Stage.SOUGHT),
    guesser: (None, Stage.SOUGHT),
}
"""The stage that an agent misses, and the last that its evidence comes to."""


@pytest.mark.parametrize("agent", DIAGNOSES)
@pytest.mark.parametrize("system", sorted(SYSTEMS))
async def test_every_agent_is_diagnosed_as_what_it_is(world, said, system, agent):
    shared = resources(world, system, judge={"kind": "anls"})
    played = [await play(shared, sample, agent, said) for sample in world.samples[1:4]]
    found = [each.evidence for each in played]
    missed, stage = DIAGNOSES[agent]
    counts = counts_of(found)
    assert [each.stage for each in found] == [stage] * 3
    lost = {name: count for name, count in lost_at(found, counts).items() if count}
    assert lost == ({missed: 3} if missed else {})
    assert counts[Stage.RIGHT] == sum(each.outcome.score == 1 for each in played) == (0 if missed else 3)
    assert sum(each.guessed for each in found) == (3 if agent is guesser else 0)
    ways = {"alden": Branch.WHOLE, "doc_v_star": Branch.WHOLE, "mm_doc_r1": Branch.TEXT}
    read = ways.get(system, Branch.ZOOMED) if agent is oracle else None
    assert {each.branch for each in found} == {read}


def blurter(state, writer):
    return Act(Move.ANSWER, text=state.answer)


def without_notes(text):
    return re.sub(r"<information>.*?</information>", "", text, flags=re.DOTALL)


CLOSED_GATES = {"unidoc_rl": (oracle, without_notes, Stage.RIGHT), "vrag_rl": (blurter, str, Stage.ALL)}
"""Agents whose right answer stands behind the closed gate of the release; how far their evidence comes."""


@pytest.mark.parametrize("system", CLOSED_GATES)
async def test_a_right_answer_behind_a_closed_gate_is_not_wrong(world, said, system):
    agent, spoil, stage = CLOSED_GATES[system]
    shared = resources(world, system, judge={"kind": "anls"}, env={"variant": "released"})

    async def outcomes(*, validate):
        played = [
            await play(shared, sample, agent, said, validate=validate, spoil=spoil)
            for sample in world.samples[1:4]
        ]
        found = [each.evidence for each in played]
        counts = counts_of(found)
        assert [each.reward for each in played] == [0.0] * 3
        assert not any(lost_at(found, counts).values())
        return played, counts, shares(found)

    trained, counts, share = await outcomes(validate=False)
    assert {each.outcome for each in trained} == {UNJUDGED}
    assert (counts[Stage.RIGHT], share["right"], share["unjudged"]) == (0, 0.0, 1.0)
    assert all(each.metrics[UNJUDGED_SHARE] == 1 and ACCURACY not in each.metrics for each in trained)
    validated, counts, share = await outcomes(validate=True)
    assert {each.outcome for each in validated} == {Outcome.of(1.0)}
    assert {each.evidence.stage for each in validated} == {stage}
    assert (counts[Stage.RIGHT], share["right"], share["unjudged"]) == (3, 1.0, 0.0)
    assert all(each.metrics[UNJUDGED_SHARE] == 0 and each.metrics[ACCURACY] == 1 for each in validated)

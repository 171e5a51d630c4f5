"""Agents that fail in a known way, in real environments: the funnel shows how each fails."""

import re
from dataclasses import replace

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.outcome import ACCURACY, UNJUDGED, UNJUDGED_SHARE, Outcome
from docagent_rl.envs.script import Act, Move
from docagent_rl.lab.agents.scripted import distinctive_words, state_of
from docagent_rl.lab.agents.texts import play_texts
from docagent_rl.lab.agents.texts import whole_turn as text_of
from docagent_rl.lab.viewer.funnel import counts_of, lost_at
from docagent_rl.rollout.evidence import Branch, Stage, shares
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.systems import SYSTEMS
from docagent_rl.systems.doc_v_star.script import DocVStarAgent
from docagent_rl.systems.mm_doc_r1.roles import RolePlayers
from tests.lab.agents.stage import resources

WRONG = "no such thing"
DETOURS = {"mm_doc_r1": {"max_steps": 4}, "unidoc_rl": {"max_turns": 6}}
"""Turns for a detour."""
FINDING_MORE = {
    "alden": {"search": {"top_k": 5, "pages_per_search": 1}},
    "doc_v_star": {"context_tokens": 900, "retrieval": {"pages": 4}},
}
"""Searches find what is not shown; a context of Doc-V* holds its prompt alone."""


def oracle(state, writer):
    act = writer.right(state)
    return replace(act, move=Move.ANSWER, text=state.answer) if act.move is Move.FINISH else act


def blind(state, writer):
    return Act(Move.ANSWER, text=WRONG)


def lost(state, writer):
    return Act(Move.SEARCH, query="xyzzy") if state.turn == 1 else blind(state, writer)


def guesser(state, writer):
    return replace(lost(state, writer), text=state.answer)


def careless(state, writer):
    """Find the page, but show another one if a search shows a single page."""
    if state.turn > 1:
        return blind(state, writer)
    pages = (PageRef(state.sample.doc_id, number) for number in state.pages)
    decoy = distinctive_words(state.store, next(page for page in pages if page not in state.gold))
    crowded = writer.pages_a_search == 1 and not isinstance(writer, DocVStarAgent)
    return Act(Move.SEARCH, query=" ".join([state.sample.question, *decoy[: 12 * crowded]]))


def forgetful(state, writer):
    """Search for something else before the answer."""
    act = oracle(state, writer)
    if act.move is not Move.ANSWER:
        return act
    return lost(
        replace(state, turn=1 + (state.record.action.arguments.get("query") == "xyzzy")), writer
    )


class Forgetting:
    """An environment in which every turn starts a new context."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    async def step(self, turn):
        result = await self.env.step(turn)
        shown = result.observation
        return replace(result, observation=shown and replace(shown, fresh=True))

    def outcome(self):
        found = self.env.outcome()
        return found and replace(found, pages=())


async def play(shared, sample, agent, said, *, validate=True, spoil=str):
    writer, state = shared.system.make_agent(shared.env_config), state_of(shared, sample, "0")

    async def write(trajectory):
        if trajectory.turns:
            state.turn, state.record = len(trajectory.turns) + 1, trajectory.turns[-1].record
            writer.look(state)
        act = agent(state, writer)
        said["answer"] = act.text
        if act.move is Move.SEARCH:
            act, state.searches = (
                replace(act, query=act.query or sample.question),
                state.searches + 1,
            )
        if act.move is Move.ANSWER and Move.FINISH in writer.legal(state):
            act = replace(act, move=Move.FINISH)
        state.magnified.update(act.pages if act.move is Move.CROP else ())
        written = text_of(writer.write(act, state))
        return replace(written, text=spoil(written.text))

    env = shared.environment(validate=validate)
    env = Forgetting(env) if agent is forgetful else env
    return await play_texts(env, sample, write, new_trajectory(sample, 0, shared.system.name))


@pytest.fixture
def said(monkeypatch):
    """Return the text of the agent's answer, if another model writes the answer."""
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
    careless: (Stage.SHOWN, Stage.FOUND),
    forgetful: (Stage.KEPT, Stage.ANSWERED),
}
"""The stage that an agent misses, and the last that its evidence comes to."""


@pytest.mark.parametrize("agent", DIAGNOSES)
@pytest.mark.parametrize("system", sorted(SYSTEMS))
async def test_every_agent_is_diagnosed_as_what_it_is(world, said, system, agent):
    changes = (FINDING_MORE if agent is careless else DETOURS).get(system, {})
    shared = resources(world, system, judge={"kind": "anls"}, env_cpu=changes)
    played = [await play(shared, sample, agent, said) for sample in world.samples[1:4]]
    found = [each.evidence for each in played]
    missed, stage = DIAGNOSES[agent]
    if (agent, system) == (careless, "unidoc_rl"):  # candidates are shown to choose from
        missed, stage = Stage.LOOKED, Stage.SHOWN
    counts = counts_of(found)
    assert [each.stage for each in found] == [stage] * 3
    lost = {name: count for name, count in lost_at(found, counts).items() if count}
    assert lost == ({missed: 3} if missed else {})
    assert (
        counts[Stage.RIGHT]
        == sum(each.outcome.score == 1 for each in played)
        == (0 if missed else 3)
    )
    assert sum(each.guessed for each in found) == (3 if agent is guesser else 0)
    ways = {"alden": Branch.WHOLE, "doc_v_star": Branch.WHOLE, "mm_doc_r1": Branch.TEXT}
    read = ways.get(system, Branch.ZOOMED) if agent in (oracle, forgetful) else None
    assert {each.branch for each in found} == {read}


def blurter(state, writer):
    return Act(Move.ANSWER, text=state.answer)


def without_notes(text):
    return re.sub(r"<information>.*?</information>", "", text, flags=re.DOTALL)


CLOSED_GATES = {
    "unidoc_rl": (oracle, without_notes, Stage.RIGHT),
    "vrag_rl": (blurter, str, Stage.ALL),
}
"""Agents whose right answer stands behind the closed gate of the release; how far their evidence
comes.
"""


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
    assert all(
        each.metrics[UNJUDGED_SHARE] == 1 and ACCURACY not in each.metrics for each in trained
    )
    validated, counts, share = await outcomes(validate=True)
    assert {each.outcome for each in validated} == {Outcome.of(1.0)}
    assert {each.evidence.stage for each in validated} == {stage}
    assert (counts[Stage.RIGHT], share["right"], share["unjudged"]) == (3, 1.0, 0.0)
    assert all(
        each.metrics[UNJUDGED_SHARE] == 0 and each.metrics[ACCURACY] == 1 for each in validated
    )

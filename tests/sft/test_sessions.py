from __future__ import annotations

import json
from dataclasses import replace

import pytest

from docagent_rl.checks.recipe_check import composed
from docagent_rl.documents import DocumentStore
from docagent_rl.records.splitting import SplitUnit
from docagent_rl.rollout.resources import SessionResources
from docagent_rl.rollout.session import Limits
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.sft.conversations import conversations
from docagent_rl.sft.rows import sft_rows
from docagent_rl.sft.sessions import Account, Dropped, Parts, RowMaker, made_rows
from docagent_rl.tiny.trial import Setting
from tests.scripted import play_all
from tests.sft.recorded import about, in_texts, masked

RECIPES = {
    "alden": "alden_qwen2_5_vl_7b",
    "doc_v_star": "doc_v_star_qwen2_5_vl_7b",
    "mm_doc_r1": "mm_doc_r1_qwen3_8b",
    "unidoc_rl": "unidoc_rl_qwen2_5_vl_7b",
    "vrag_rl": "vrag_rl_qwen2_5_vl_7b",
}
WIDE = Limits(prompt=20_000, response=60_000, turn=2_000)


@pytest.fixture(scope="module", params=RECIPES)
def played(request, world, processor):
    """A script's sessions in each system's environment, and what makes rows of them."""
    system = request.param
    overrides = ["+profile=cpu", f"docagent.workspace={world.root}", "docagent.judge.kind=rule"]
    setting = Setting.of(composed(RECIPES[system], overrides))
    text = system == "mm_doc_r1"
    resources = SessionResources(setting.config, processor.tokenizer, None if text else processor)
    sessions = play_all(resources, WIDE, [record for record in world.records if record.answers][:3])
    return sessions, RowMaker(resources.codec, DocumentStore(world.root / "store"))


def told(rows):
    return [(row.input_ids, row.loss_mask, row.images, row.row) for row in rows]


def test_rows_of_every_system_come_back_from_the_record(played):
    sessions, maker = played
    for session in sessions:
        trajectory = Trajectory.from_dict(json.loads(session.trajectory.to_json()))
        expected = told(sft_rows(trajectory, session.ledgers))
        assert told(maker.rows(trajectory)) == expected
        assert told(maker.rows(in_texts(trajectory))) == expected


def test_conversations_of_every_system_have_a_context_a_row_and_end_with_the_policy(played):
    sessions, maker = played
    for session in sessions:
        contexts = conversations(session.trajectory)
        rows = maker.rows(session.trajectory)
        assert len(contexts) == len(rows)
        for turns, row in zip(contexts, rows, strict=True):
            assert turns[-1].role == "assistant"
            assert [image for turn in turns for image in turn.images] == list(row.images)
        said = [
            part for turns in contexts for turn in turns if turn.role == "assistant" for part in turn.parts
        ]
        assert said == [turn.text for turn in session.trajectory.turns]


def test_accounts_add_up(played):
    sessions, maker = played
    trajectories = [session.trajectory for session in sessions]
    account, ticks = Account(), []
    mixed = [masked(trajectories[0]), *trajectories]
    rows = list(made_rows(mixed, maker, account, lambda: ticks.append(1)))
    assert (account.sessions, account.rows, len(ticks)) == (len(sessions), len(rows), len(mixed))
    assert account.tokens == sum(len(row.input_ids) for row in rows)
    assert account.trained == sum(turn.sampled for each in trajectories for turn in each.turns)
    assert account.longest == max(len(row.input_ids) for row in rows)
    assert account.dropped == {Dropped.MASKED: 1}


def test_one_row_that_is_too_long_leaves_out_the_session(played):
    sessions, maker = played
    longest = max(len(row.input_ids) for row in maker.rows(sessions[0].trajectory))
    assert replace(maker, max_length=longest).rows(sessions[0].trajectory) is not Dropped.TOO_LONG
    assert replace(maker, max_length=longest - 1).rows(sessions[0].trajectory) is Dropped.TOO_LONG


def test_masked_sessions_choose_nothing(played):
    (one, *_), _ = played
    sessions = [about(one.trajectory, name, 0) for name in ("a.pdf", "b.pdf", "c.pdf")]
    parts = Parts.choose([*sessions, masked(about(one.trajectory, "d.pdf", 0))], 0.5, SplitUnit.DOCUMENT, 0)
    assert len(parts.aside) == 2
    assert ("d.pdf",) not in parts.aside
    assert not parts.validates(masked(sessions[0]))


def test_documents_that_a_question_ties_are_in_one_part(played):
    (one, *_), _ = played
    several = about(one.trajectory, "a.pdf", 0)
    several.record["extra"] = {"page_ids": ["a.pdf#1", "b.pdf#1"]}
    apart = [about(one.trajectory, name, 0) for name in ("a.pdf", "b.pdf", "c.pdf")]
    for seed in range(8):
        parts = Parts.choose([several, *apart], 0.5, SplitUnit.DOCUMENT, seed)
        first, second, other = (parts.validates(session) for session in apart)
        assert first == second == parts.validates(several)
        assert other is not first

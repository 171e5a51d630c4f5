from __future__ import annotations

from dataclasses import replace

import pytest

from docagent_rl.checks.recipe_check import composed
from docagent_rl.documents import DocumentStore
from docagent_rl.records.splitting import SplitUnit
from docagent_rl.rollout.resources import SessionResources
from docagent_rl.rollout.session import Limits
from docagent_rl.sft.conversations import conversations
from docagent_rl.sft.rows import sft_rows
from docagent_rl.sft.sessions import Account, Dropped, Parts, RowMaker, made_rows
from docagent_rl.tiny.trial import Setting
from tests.scripted import play_all
from tests.sft.recorded import about, copied, in_texts, masked

RECIPES = {
    "alden": "alden_qwen2_5_vl_7b",
    "doc_v_star": "doc_v_star_qwen2_5_vl_7b",
    "mm_doc_r1": "mm_doc_r1_qwen3_8b",
    "unidoc_rl": "unidoc_rl_qwen2_5_vl_7b",
    "vrag_rl": "vrag_rl_qwen2_5_vl_7b",
}
WIDE = Limits(prompt=20_000, response=60_000, turn=2_000)


@pytest.mark.parametrize("system", RECIPES)
def test_rows_and_conversations_of_every_system_come_back_from_the_record(system, world, processor):
    overrides = ["+profile=cpu", f"docagent.workspace={world.root}", "docagent.judge.kind=rule"]
    setting = Setting.of(composed(RECIPES[system], overrides))
    text = system == "mm_doc_r1"
    resources = SessionResources(setting.config, processor.tokenizer, None if text else processor)
    sessions = play_all(resources, WIDE, [record for record in world.records if record.answers][:2])
    maker = RowMaker(resources.codec, DocumentStore(world.root / "store"))
    for session in sessions:
        rows = sft_rows(session.trajectory, session.ledgers)
        assert maker.rows(copied(session)) == rows
        assert maker.rows(in_texts(copied(session))) == rows
        contexts = conversations(session.trajectory)
        shown = [[image for turn in turns for image in turn.images] for turns in contexts]
        assert shown == [list(row.images) for row in rows]
        assert {turns[-1].role for turns in contexts} == {"assistant"}
        written = [turn for turns in contexts for turn in turns if turn.role == "assistant"]
        assert [turn.parts for turn in written] == [(turn.text,) for turn in session.trajectory.turns]


def test_accounts_add_up(task, played):
    one = played.trajectory
    account, ticks = Account(), []
    rows = list(
        made_rows([masked(one), one, one], RowMaker(task.resources.codec), account, lambda: ticks.append(1))
    )
    assert (account.sessions, account.rows, len(ticks)) == (2, len(rows), 3)
    assert account.tokens == sum(len(row.input_ids) for row in rows)
    assert account.trained == 2 * sum(turn.sampled for turn in one.turns)
    assert account.longest == max(len(row.input_ids) for row in rows)
    assert account.dropped == {Dropped.MASKED: 1}


def test_one_row_that_is_too_long_leaves_out_the_session(task, played):
    maker = RowMaker(task.resources.codec)
    longest = max(len(row.input_ids) for row in maker.rows(played.trajectory))
    assert replace(maker, max_length=longest).rows(played.trajectory) is not Dropped.TOO_LONG
    assert replace(maker, max_length=longest - 1).rows(played.trajectory) is Dropped.TOO_LONG


def test_masked_sessions_choose_nothing(played):
    sessions = [about(played.trajectory, name, 0) for name in ("a.pdf", "b.pdf", "c.pdf")]
    lost = masked(about(played.trajectory, "d.pdf", 0))
    parts = Parts.choose([*sessions, lost], 0.5, SplitUnit.DOCUMENT, 0)
    assert len(parts.aside) == 2
    assert ("d.pdf",) not in parts.aside
    assert not parts.validates(masked(sessions[0]))


def test_documents_that_a_question_ties_are_in_one_part(played):
    several = about(played.trajectory, "a.pdf", 0)
    several.record["extra"] = {"page_ids": ["a.pdf#1", "b.pdf#1"]}
    apart = [about(played.trajectory, name, 0) for name in ("a.pdf", "b.pdf", "c.pdf")]
    for seed in range(8):
        parts = Parts.choose([several, *apart], 0.5, SplitUnit.DOCUMENT, seed)
        first, second, other = (parts.validates(session) for session in apart)
        assert first == second == parts.validates(several)
        assert other is not first

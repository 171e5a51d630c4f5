from __future__ import annotations

import re

import pytest

from docagent_rl.checks.preflight import check
from docagent_rl.errors import UserError

RECIPE = "doc_v_star_qwen2_5_vl_7b"
STRICT = "+docagent.env_cpu.overview.fit=error"


@pytest.fixture
def preflight(long_workspace, tmp_path, capsys):
    """Check a run on these documents; what it says."""

    def run(train, val, *overrides):
        records = [[long_workspace.record(name) for name in names] for names in (train, val)]
        files = long_workspace.data(tmp_path, *records)
        check(long_workspace.config(RECIPE, *files, *overrides))
        return capsys.readouterr().err

    return run


def test_long_documents_pass_and_the_report_says_how_they_are_shown(preflight):
    said = preflight(["short", "long"], ["short"])
    assert re.search(r"(?s)data\.train_files.*1536.* 42 .*56.*long", said)
    assert "data.val_files" not in said


def test_training_questions_that_cannot_be_played_are_refused_by_document(preflight):
    with pytest.raises(
        UserError, match=r"(?s)1 of 2.*'long'.*'about-long'.*docagent\.rollout\.unplayable=mask"
    ):
        preflight(["short", "long"], ["short"], STRICT)


def test_they_may_be_masked_by_choice(preflight):
    said = preflight(["short", "long"], ["short"], STRICT, "docagent.rollout.unplayable=mask")
    assert "data.train_files: 1 of 2" in said


def test_a_validation_question_that_cannot_be_played_is_announced_as_wrong(preflight):
    said = preflight(["short"], ["short", "long"], STRICT)
    assert re.search(r"(?s)data\.val_files: 1 of 2.*'long'.*'about-long'", said)


def test_a_clean_run_says_nothing(preflight):
    assert preflight(["short"], ["short"]) == ""


def test_environments_must_not_fill_more_than_the_rollout_takes(preflight):
    with pytest.raises(UserError, match=r"prompt_tokens=2000.*data\.max_prompt_length=1536"):
        preflight(["short"], ["short"], "docagent.rollout.prompt_tokens=2000")


def test_a_model_without_a_tokenizer(preflight, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"model\.path="):
        preflight(
            ["short"],
            ["short"],
            f"actor_rollout_ref.model.path={tmp_path / 'model'}",
            "actor_rollout_ref.actor.freeze_vision_tower=false",
        )

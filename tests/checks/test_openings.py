from __future__ import annotations

import re

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.preflight import check

RECIPE = "doc_v_star_qwen2_5_vl_7b"
NONE = [["short"], ["short"]]
TRAIN = [["short", "long"], ["short"]]


@pytest.fixture
def preflight(long_workspace, tmp_path, capsys):
    """Check a run on these documents; what it says."""

    def run(documents, *overrides):
        samples = [[long_workspace.sample(name) for name in names] for names in documents]
        check(long_workspace.config(RECIPE, *long_workspace.data(tmp_path, *samples), *overrides))
        return capsys.readouterr().err

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("documents", "overrides", "said"),
    [
        (TRAIN, [], r"data\.train_files.*1536.* 42 .*56.*long"),  # how the long one is shown
        (NONE, [], r"\A\Z"),
    ],
)
def test_the_report_says_what_is_shown_and_what_cannot_be_played(preflight, documents, overrides, said):
    found = preflight(documents, *overrides)
    assert re.search(f"(?s){said}", found)
    assert "data.val_files" not in found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("documents", "overrides", "message"),
    [
        (NONE, ["docagent.rollout.prompt_tokens=2000"], r"tokens=2000.*data\.max_prompt_length=1536"),
        # a model without a tokenizer
        (NONE, ["actor_rollout_ref.model.path={model}", "docagent.provision=null"], r"model\.path=/"),
    ],
)
def test_runs_that_are_refused(preflight, tmp_path, documents, overrides, message):
    (tmp_path / "config.json").write_text("{}")
    frozen = "actor_rollout_ref.actor.freeze_vision_tower=false"
    with pytest.raises(UserError, match=message):
        preflight(documents, frozen, *(each.format(model=tmp_path) for each in overrides))

import dataclasses
import re

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.preflight import check
from docagent_rl.samples.parquet import write_parquet
from tests.checks.conftest import RECIPES

BARE = {"evidence_pages": (), "evidence_boxes": {}}
UNANSWERABLE = {**BARE, "answers": (), "answerable": False}
UNANSWERED = {"answers": (), "answerable": None}
LONG = {"question": "Which page? " * 5000}
"""More than fits into the prompt of any recipe."""


@pytest.fixture
def files(world, tmp_path):
    """Return a function that writes the world's questions to a file, with the first of them
    changed.
    """

    def files(key="train", count=None, **changes):
        extra = {**world.samples[0].extra, **changes.pop("extra", {})}
        first = dataclasses.replace(world.samples[0], **changes, extra=extra)
        path = write_parquet([first, *world.samples[1:count]], tmp_path / "x.parquet")
        return f"data.{key}_files={path}"

    return files


REFUSED = {"vrag_rl": 2, "unidoc_rl": 2, "alden": 1, "doc_v_star": 1, "mm_doc_r1": 0}


@pytest.mark.parametrize("system", RECIPES)
def test_rows_that_a_system_cannot_play_are_named(checked, files, world, system):
    first = world.samples[0]
    for number, changes in enumerate((BARE, UNANSWERABLE)):
        if number >= REFUSED[system]:
            assert checked(files(**changes), system=system).system == system
            continue
        with pytest.raises(UserError) as told:
            checked(files(**changes), system=system)
        assert str(told.value).startswith(f"data.train_files: 1 of {len(world.samples)} ")
        assert all(
            part in str(told.value)
            for part in (system, repr(first.doc_id), repr(first.question_id))
        )


@pytest.mark.parametrize(
    ("system", "changes", "message"),
    [
        ("vrag_rl", UNANSWERED, "answer"),
        ("mm_doc_r1", UNANSWERED, "answer"),
        ("unidoc_rl", {"extra": {"crop_required": {"1": "yes"}}}, r"extra\.crop_required"),
        ("mm_doc_r1", {"extra": {"window": [5, 2]}}, r"extra\.window"),
    ],
)
def test_rows_that_nobody_can_play(checked, files, system, changes, message):
    with pytest.raises(UserError, match=message):
        checked(files(**changes), system=system)


def test_validation_keeps_what_cannot_be_played_and_says_so(checked, files, world, capsys):
    checked(files("val", **LONG))
    told = f"data.val_files: 1 of {len(world.samples)} .*{world.samples[0].question_id!r}"
    assert re.search(f"(?s){told}", capsys.readouterr().err)
    checked(files(**LONG), "docagent.rollout.unplayable=mask")
    assert f"data.train_files: 1 of {len(world.samples)} " in capsys.readouterr().err
    with pytest.raises(UserError, match=r"data\.val_files: 1 of 1 "):
        checked(files("val", 1, **LONG))


def test_a_batch_larger_than_the_questions(checked, files):
    three = files(count=3)
    for overrides, message in (
        ((three,), r"data\.train_batch_size=4 .* 3 questions .*\(3 in "),
        (("data.train_max_samples=2",), r" 2 questions .*\(\d+ in .*data\.train_max_samples"),
    ):
        with pytest.raises(UserError, match=message):
            checked(*overrides)
    file = three.partition("=")[2]
    checked(f"data.train_files=[{file},{file}]")
    checked(f"data.val_files={file}", "data.val_batch_size=64")


def test_prompts_that_are_promised_more_than_they_may_have_and_models_without_a_tokenizer(
    checked, tmp_path
):
    with pytest.raises(UserError, match=r"tokens=99999.*data\.max_prompt_length="):
        checked("docagent.rollout.prompt_tokens=99999")
    (tmp_path / "config.json").write_text("{}")
    frozen = "actor_rollout_ref.actor.freeze_vision_tower=false"
    with pytest.raises(UserError, match=r"model\.path=/"):
        checked(f"actor_rollout_ref.model.path={tmp_path}", frozen)


@pytest.mark.slow
def test_the_report_says_how_long_documents_are_shown(long_workspace, tmp_path, capsys):
    samples = [
        [long_workspace.sample(name) for name in names] for names in (["short", "long"], ["short"])
    ]
    check(long_workspace.config(RECIPES["doc_v_star"], *long_workspace.data(tmp_path, *samples)))
    said = capsys.readouterr().err
    assert re.search(r"(?s)data\.train_files.*1536.* 42 .*56.*long", said)
    assert re.search(r"thumbnails are not drawn yet.*--thumbnails 42 --thumbnails 56`", said)
    assert "data.val_files" not in said

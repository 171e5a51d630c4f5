from __future__ import annotations

import dataclasses

import pytest

from docagent_rl.data.parquet import read_parquet, validate_parquet
from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError
from docagent_rl.learning.oracle import oracle
from docagent_rl.learning.task import Part, TaskSettings, make_task, sheets
from tests.learning.plates import SETTINGS, Plates


@pytest.fixture(scope="module")
def plates(tmp_path_factory, processor):
    return Plates(tmp_path_factory.mktemp("plates"), processor)


def numbers(part, settings):
    return {plate.number for sheet in sheets(settings) if sheet.part is part for plate in sheet.plates}


def test_some_numbers_are_held_out_only():
    settings = TaskSettings()
    seen = set.union(*(numbers(part, settings) for part in (Part.SFT, Part.TRAIN, Part.DEV)))
    assert len(seen) == 72  # of 90, since 20 % are kept
    assert len(numbers(Part.HELD_OUT, settings) - seen) > 10
    assert numbers(Part.HELD_OUT, settings) & seen


def test_blank_documents_are_the_held_out_ones():
    settings = TaskSettings()
    held_out = [s for s in sheets(settings) if s.part is Part.HELD_OUT]
    blank = [s for s in sheets(settings) if s.part is Part.BLANK]
    assert [s.plates for s in blank] == [s.plates for s in held_out]
    assert not {s.doc_id for s in blank} & {s.doc_id for s in held_out}


def test_words_of_a_document_differ():
    for sheet in sheets(TaskSettings(pages=16, train=5)):
        assert len({plate.word for plate in sheet.plates}) == 16


def test_the_same_settings_give_the_same_documents():
    assert sheets(SETTINGS) == sheets(dataclasses.replace(SETTINGS))
    assert sheets(SETTINGS) != sheets(dataclasses.replace(SETTINGS, seed=1))


@pytest.mark.parametrize("change", [{"digits": 0}, {"digits": 4}, {"pages": 0}, {"pages": 17}])
def test_settings_that_do_not_fit_are_refused(change):
    with pytest.raises(UserError, match="expected 1 to"):
        TaskSettings(**change)


def test_the_files_are_those_of_the_trainer(plates):
    store = DocumentStore(plates.paths.store)
    for part in Part:
        assert validate_parquet(plates.paths.data(part), store=store).ok
        records = read_parquet(plates.paths.data(part))
        assert len(records) == SETTINGS.documents(part) * SETTINGS.pages
        assert {record.dataset for record in records} == {part.dataset}


def test_a_task_is_made_once_and_never_mixed_with_another(plates):
    before = plates.paths.index.stat().st_mtime_ns
    assert make_task(plates.root, SETTINGS) == plates.paths
    assert plates.paths.index.stat().st_mtime_ns == before
    with pytest.raises(UserError, match="holds another task"):
        make_task(plates.root, dataclasses.replace(SETTINGS, seed=3))


def test_the_oracle_finds_the_page_and_is_paid_in_full(plates):
    for number in range(4):
        trajectory = plates.play(oracle, number=number).trajectory
        assert trajectory.reward == pytest.approx(1.0)
        assert trajectory.metrics["retrieval_recall"] == 1.0
        assert trajectory.metrics["turns"] == 2


def test_an_answer_without_a_look_is_wrong_but_for_luck(plates):
    wrong = plates.play(lambda t: f"<answer>{(int(t.record['answers'][0]) + 1) % 100}</answer>")
    assert wrong.trajectory.reward == 0.0
    both = plates.play(lambda t: f"<answer>{t.record['answers'][0]} or 5</answer>")
    assert both.trajectory.reward == 0.0, "an answer must not name several numbers"

import dataclasses

import numpy as np
import pypdfium2
import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.documents.store import DocumentStore
from docagent_rl.samples.parquet import read_parquet
from docagent_rl.samples.validation import validate_file
from learning.oracle import oracle
from learning.pages import SIDE_PT, NumberPage, number_pages_pdf
from learning.plan import RECIPE, LearnPaths, base_overrides
from learning.task import Part, TaskSettings, make_task, sheets, task_section
from tests.examples.learning.small_task import SETTINGS, SmallTask


@pytest.fixture(scope="module")
def task(tmp_path_factory, processor):
    return SmallTask(tmp_path_factory.mktemp("task"), processor)


def numbers(part, settings):
    return {page.number for sheet in sheets(settings) if sheet.part is part for page in sheet.pages}


def test_documents_are_those_that_the_published_results_are_of():
    first = sheets(TaskSettings())[0]
    pages = {page.word: page.number for page in first.pages}
    assert pages == {"profit": "81", "cost": "55", "water": "92", "hospital": "33"}
    assert first.pages[0].shift == (0.08, -0.87)
    assert sheets(SETTINGS) != sheets(dataclasses.replace(SETTINGS, seed=1))
    for sheet in sheets(TaskSettings(pages=16, train=5)):
        assert len({page.word for page in sheet.pages}) == 16


def test_trajectories_without_a_trainer_are_played_as_the_recipe_says(tmp_path):
    paths = LearnPaths(tmp_path)
    recipe = composed_recipe(RECIPE, base_overrides(paths, tmp_path / "run")).docagent
    section = task_section(paths.task)
    assert section["env"]["display"] == {"min_pixels": 12544, "max_pixels": 12544}
    env = OmegaConf.merge(recipe.env, recipe.env_cpu)
    assert OmegaConf.merge(env, section["env"]) == env
    assert section["judge"]["kind"] == recipe.judge.kind == "exact"
    assert section["system"] == recipe.system
    assert str(section["prompt"]) == recipe.prompt
    assert str(section["store"]) == recipe.store


def test_the_files_are_those_of_the_trainer(task):
    store = DocumentStore(task.paths.store)
    for part in Part:
        assert not validate_file(task.paths.data(part), store=store).problems
        samples = read_parquet(task.paths.data(part))
        assert len(samples) == SETTINGS.documents(part) * SETTINGS.pages
        assert {sample.dataset for sample in samples} == {part.dataset}


def test_a_task_is_made_once_and_never_mixed_with_another(task):
    before = task.paths.index.stat().st_mtime_ns
    assert make_task(task.root, SETTINGS) == task.paths
    assert task.paths.index.stat().st_mtime_ns == before
    with pytest.raises(UserError, match=str(task.root)):
        make_task(task.root, dataclasses.replace(SETTINGS, seed=3))


def test_the_oracle_finds_the_page_and_is_paid_in_full(task):
    for number in range(2):
        trajectory = task.play(oracle, number=number).trajectory
        assert trajectory.reward == pytest.approx(1.0)
        assert trajectory.metrics["retrieval_recall"] == 1.0
        assert trajectory.metrics["turns"] == 2


def test_an_answer_without_a_look_is_wrong_but_for_luck(task):
    wrong = task.play(lambda t: f"<answer>{(int(t.sample['answers'][0]) + 1) % 100}</answer>")
    assert wrong.trajectory.reward == 0.0
    both = task.play(lambda t: f"<answer>{t.sample['answers'][0]} or 5</answer>")
    assert both.trajectory.reward == 0.0, "an answer must not name several numbers"


PAGES = [NumberPage("water", "73", (1.5, -1.5)), NumberPage("cost", "18"), NumberPage("water", "")]


def rendered(pdf):
    pages = list(pypdfium2.PdfDocument(pdf))
    texts = [page.get_textpage().get_text_range() for page in pages]
    return [np.asarray(page.render(scale=2).to_pil().convert("L")) for page in pages], texts


def test_the_number_is_painted_near_the_middle_and_the_word_is_in_the_text_layer_only():
    (moved, centred, nothing), texts = rendered(number_pages_pdf(PAGES))
    assert moved.shape == (2 * SIDE_PT, 2 * SIDE_PT)
    rows, columns = np.nonzero(centred < 128)
    assert (rows.mean(), columns.mean()) == pytest.approx((SIDE_PT, SIDE_PT), abs=4)
    rows, columns = np.nonzero(moved < 128)
    # 1.5 points are 3 pixels; upwards is negative in PDF and positive here
    assert (rows.mean() - SIDE_PT, columns.mean() - SIDE_PT) == pytest.approx((3, 3), abs=2)
    assert "water" in texts[0]
    assert nothing.min() == 255

import io
from collections import Counter

import pypdfium2
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.samples.validation import check_sample
from proof.floors import measure_floors
from proof.tasks import get_task
from proof.tasks.base import Part
from proof.unit import ProofPaths, Unit
from proof.warm_start import script_trajectories, setting_of
from proof.workspace import make_workspace, questions
from tests.examples.proof.small import WRITTEN, shrink

READS_TEXT = ("mm_doc_r1",)
"""Systems whose agent sees no picture: their blank pages have no words either."""


@pytest.mark.parametrize("system", WRITTEN)
def test_no_document_is_in_two_parts_and_questions_are_sound(system):
    task = get_task(system)
    sheets = task.sheets(0)
    assert {sheet.part for sheet in sheets} == set(Part)
    names = [sheet.doc_id for sheet in sheets]
    assert len(set(names)) == len(names)
    drawn = {part: {sheet.pages for sheet in sheets if sheet.part is part} for part in Part}
    assert drawn[Part.BLANK] == drawn[Part.HELD_OUT]
    for part in (Part.SFT, Part.TRAIN, Part.DEV):
        assert not drawn[part] & drawn[Part.HELD_OUT]
    assert sheets == task.sheets(0) != task.sheets(1)
    assert {10 <= len(sheet.pages) <= 40 for sheet in sheets} == {True}
    for sheet in sheets[::7]:
        assert [check_sample(sample) for sample in sheet.samples()]


@pytest.mark.parametrize("system", WRITTEN)
def test_no_question_tells_its_number_or_its_page(system):
    asked = [r for s in get_task(system).sheets(0) if s.part is Part.HELD_OUT for r in s.samples()]
    for value in ((r.answers[0] for r in asked), (r.evidence_pages[0] for r in asked)):
        assert Counter(value).most_common(1)[0][1] < 0.2 * len(asked)


@pytest.mark.parametrize("system", [name for name in WRITTEN if name not in READS_TEXT])
def test_a_blank_document_has_the_words_and_nothing_to_see(system):
    task = get_task(system)
    sheets = {sheet.doc_id: sheet for sheet in task.sheets(0)}
    shown, blank = (
        pypdfium2.PdfDocument(io.BytesIO(task.pdf(sheets[f"{part.value}-0000"])))
        for part in (Part.HELD_OUT, Part.BLANK)
    )
    for page, white in zip(shown, blank, strict=True):
        assert (
            page.get_textpage().get_text_bounded() == white.get_textpage().get_text_bounded() != ""
        )
        assert white.render().to_pil().convert("L").getextrema() == (255, 255)
    assert shown[0].render().to_pil().convert("L").getextrema()[0] < 80


@pytest.mark.slow
@pytest.mark.parametrize("system", WRITTEN)
def test_the_script_is_right_in_every_environment_that_it_is_told_of(
    system, monkeypatch, tmp_path, processor
):
    task = shrink(system, monkeypatch)
    paths = ProofPaths(tmp_path, system)
    make_workspace(task, paths.task)
    samples = questions(task.sheets(0), Part.SFT)
    most = 0.0
    for ablation in [None, *(name for name, each in task.ablations.items() if each.own_warm_start)]:
        setting = setting_of(task, paths, ablation)
        played = script_trajectories(task, setting, processor, samples, ablation)
        assert len(played) == len(samples)
        rewards = [trajectory.trajectory.reward for trajectory in played]
        # nothing that an ablation leaves pays as much as the whole
        most = most or min(rewards)
        assert most >= 0.9
        assert max(rewards) <= most or ablation is None


def test_other_documents_are_not_written_over(monkeypatch, tmp_path):
    task = shrink(WRITTEN[0], monkeypatch)
    paths = ProofPaths(tmp_path, task.system).task
    (paths.workspace).mkdir(parents=True)
    (paths.workspace / "task.txt").write_text("another\n")
    with pytest.raises(UserError, match=str(tmp_path)):
        make_workspace(task, paths)
    with pytest.raises(UserError, match="alden, doc_v_star"):
        get_task("nobody")


@pytest.mark.slow
def test_pages_are_needed_and_suffice(monkeypatch, tmp_path):
    system = "vrag_rl"
    task, unit, paths = (
        shrink(system, monkeypatch),
        Unit(system, "reward", 0),
        ProofPaths(tmp_path, system),
    )
    make_workspace(task, paths.task)
    build_tiny_model(paths.warm_start(unit), seed=0)
    found = measure_floors(unit, paths)
    assert found["oracle"]["accuracy"] == 1.0
    assert found["oracle"]["reward"] >= 1.0
    assert found["question_only"]["accuracy"] == found["random"]["accuracy"] == 0.0
    assert found["random"]["reward"] < found["oracle"]["reward"]
    assert found["commonest"]["accuracy"] < 0.2

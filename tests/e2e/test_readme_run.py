"""The README's commands work as they are written, in order, in one shell: from `make train` to an
agent that was trained on the user's own PDFs.
"""

import json
import re

import pytest

from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.samples.parquet import read_parquet
from tests.e2e.readme import ANSWER, ROOT, STEPS

RECIPE = "vrag_rl_qwen2_5_vl_7b"
PAGE = ROOT / "docs" / "first_hour.md"
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e-\d+)?")


@pytest.fixture(scope="module")
def typed(runs):
    return runs.result("readme")


def said_by(typed, beginning: str) -> str:
    return next(said for command, said in typed.said.items() if command.startswith(beginning))


def test_the_demo_trains(typed):
    run = typed.folder / "workspace" / "runs" / RECIPE
    assert list(read_trajectories(run / "trajectories" / "4.jsonl"))
    assert len(said_by(typed, "make train").splitlines()) < 100


LUCK = ("…", "warning:", "imports")
"""Beginnings of lines that are not in every run: of slow stages, of what the trajectories happened
to do, and of imports, which the warm interpreter has done before.
"""


def shapes(text: str) -> set[str]:
    """Return the lines of a run of the trainer up to its end, without what differs from run to run:
    numbers, units of time, the stage at which most evidence is lost, and names of data.
    """
    text = text[text.index("docagent-rl 0.2.0") : text.index("next:")]
    text = text.replace("; importing verl, torch and Ray", "")
    lines = (line.strip() for line in text.splitlines())
    alike = (line for line in lines if "/reward" not in line and not line.startswith(LUCK))
    found = (re.sub(r"most lost at \w+", "most lost", NUMBER.sub("0", line)) for line in alike)
    return {" ".join(re.sub(r"\b0 (s|min|h)\b", "0 s", line).split()) for line in found}


def test_the_page_about_the_first_hour_has_what_is_printed(typed):
    block = PAGE.read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    said = said_by(typed, "make train").replace(f"{typed.folder}/", "")
    assert shapes(block) == shapes(said)


def test_a_question_about_a_pdf_is_answered(typed):
    said = said_by(typed, "docagent-rl ask")
    assert "1. answer 350\n" in said
    assert "Loading weights" not in said
    (trajectory,) = read_trajectories(typed.folder / "answer" / "trajectories.jsonl")
    assert [turn.text for turn in trajectory.turns] == [ANSWER]


def test_the_agent_is_trained_on_the_documents_and_scored(typed):
    run = typed.agent / "runs" / RECIPE
    tracker = run / "checkpoints" / "latest_checkpointed_iteration.txt"
    assert tracker.read_text().strip() == str(STEPS)
    assert list(read_trajectories(run / "trajectories" / f"{STEPS}.jsonl"))
    questions = read_parquet(typed.agent / "data" / "val.parquet")
    report = json.loads((typed.agent / "report" / "report.json").read_text(encoding="utf-8"))
    assert [each["trajectories"] for each in report["runs"]] == [len(questions)]


def test_it_says_what_to_type_next_and_is_done_afterwards(typed):
    first = said_by(typed, "docagent-rl run")
    assert "still a placeholder" in first
    for said in (first, typed.repeated):
        assert f"docagent-rl view my_agent/runs/{RECIPE}" in said
    heads = [line for line in typed.repeated.splitlines() if line.startswith("[")]
    assert heads
    assert all(line.endswith(": done") for line in heads)

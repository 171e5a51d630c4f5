"""From benchmarks to a trained agent and its report."""

import json

import pytest

from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.importers import Benchmark
from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.samples.questions import read_questions
from tests.e2e.lora import STEPS


@pytest.fixture(scope="module")
def chain(runs):
    return runs.result("chain")


def test_every_benchmark_is_collected_from(chain):
    samples = read_questions(chain.questions)
    assert {sample.question_id.partition("-")[0] for sample in samples} == set(Benchmark)
    kept = list(read_trajectories(chain.kept))
    assert {trajectory.question_id for trajectory in kept} <= {
        sample.question_id for sample in samples
    }
    assert len(kept) > 0.8 * len(samples)


def test_rl_begins_with_the_fine_tuned_model_and_its_checkpoint_is_played(chain):
    assert (chain.run.run_dir / "trajectories" / f"{STEPS}.jsonl").exists()
    manifest = RunFolder(chain.trained).manifest()
    assert f"global_step_{STEPS}" in json.dumps(manifest)
    trajectories = list(RunFolder(chain.trained).trajectories())
    assert [s.question_id for s in trajectories] == [
        r.question_id for r in read_questions(chain.questions)
    ]
    assert all(
        turn.token_ids and turn.log_probs for s in trajectories if not s.masked for turn in s.turns
    )


def headline(run: dict, benchmark: str) -> float:
    part = run["benchmarks"][benchmark]
    return next(each["value"] for each in part["answers"] if each["measure"] == part["headline"])


def test_the_report_has_every_benchmark_between_floor_and_ceiling(chain):
    report = json.loads((chain.report / "report.json").read_text(encoding="utf-8"))
    samples = read_questions(chain.questions)
    runs = {run["name"]: run for run in report["runs"]}
    assert [run["trajectories"] for run in runs.values()] == [len(samples)] * 3
    for dataset in {sample.dataset for sample in samples}:
        ceiling, floor, trained = (
            headline(runs[name], dataset) for name in ("oracle", "random", "trained")
        )
        assert 0 <= floor <= trained <= ceiling <= 1, dataset
        assert ceiling > 0.5 > floor, dataset
    assert (chain.report / "report.md").stat().st_size > 1000

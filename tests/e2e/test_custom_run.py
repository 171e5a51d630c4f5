"""A user's scans are read and searched, and a user's system, estimator and retriever train on
them.
"""

import shlex
from statistics import fmean

import pytest

from docagent_rl.documents.store import DocumentStore
from tests.e2e.custom import EXAMPLES, FOLDER
from tests.e2e.identity import agreement, images


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_docstring_gives_this_command(name):
    docstring = (FOLDER / f"{name}.py").read_text().split('"""')[1]
    words = shlex.split(docstring[docstring.index("PYTHONPATH=") :])
    assert words[0] == "PYTHONPATH=examples"
    assert set(EXAMPLES[name]) <= set(words)


def test_the_system_trains(runs):
    run = runs.result("custom")
    for step in (1, 2):
        numbers = run.metrics(step)
        assert {
            "docagent/reward/correct",
            "docagent/turns",
            "docagent/funnel/right",
        } <= numbers.keys()
        assert numbers["docagent/masked_trajectories"] == 0
        played = run.trajectories(step)
        assert {t.system for t in played} == {"one_look"}
        assert len({t.metrics["reward/short"] for t in played}) > 1


def test_the_estimator_trains(runs):
    run, spread = runs.result("custom"), []
    for step in (1, 2):
        numbers = run.metrics(step)
        rewards = {}
        for trajectory in run.trajectories(step):
            rewards.setdefault(trajectory.uid, []).append(trajectory.reward)
        medians = [sorted(group)[(len(group) - 1) // 2] for group in rewards.values()]
        # groups have four trajectories of one row each, so that rows and groups have the same mean
        assert numbers["median_baseline/mean"] == pytest.approx(
            sum(medians) / len(medians), abs=1e-6
        )
        spread.append(numbers["critic/advantages/max"] - numbers["critic/advantages/min"])
    # the trajectories of a step may all be paid alike
    assert max(spread) > 0


@pytest.mark.parametrize(("step", "prefix"), [(1, ""), (2, ""), ("val-2", "val-aux/")])
def test_the_reward_function_is_called_in_training_and_in_validation(runs, step, prefix):
    run = runs.result("custom")
    played = run.trajectories(step)
    for trajectory in played:
        found = trajectory.metrics
        own = 0.9 * found["reward/correct"] + 0.1 * found["reward/short"]
        score = (
            0.9 * found["reward/compute_score.overlap"]
            + 0.1 * found["reward/compute_score.brevity"]
        )
        assert found["reward/compute_score"] == pytest.approx(score)
        assert found["reward/compute_score.brevity"] == pytest.approx(1 - len(trajectory.turns) / 6)
        assert trajectory.reward == pytest.approx(own + 0.5 * score)
    wanted = fmean(each.metrics["reward/compute_score"] for each in played)
    assert run.metrics(step)[f"{prefix}docagent/reward/compute_score"] == pytest.approx(wanted)


def test_validations_have_its_numbers_by_data_source(runs):
    run = runs.result("custom")
    numbers, sources = run.metrics("val-2"), {}
    for trajectory in run.trajectories("val-2"):
        sources.setdefault(trajectory.sample["dataset"], []).append(trajectory)
    for source, played in sources.items():
        own = fmean(each.metrics["reward/compute_score"] for each in played)
        assert numbers[f"val-aux/{source}/reward/compute_score/mean@1"] == pytest.approx(own)
        whole = fmean(each.reward for each in played)
        assert numbers[f"val-core/{source}/reward/mean@1"] == pytest.approx(whole)


def test_server_and_trainer_agree_token_by_token(runs):
    found = agreement(runs.result("custom").trajectories(1, 2))
    assert found.tokens > 100
    assert found.holds, found


def test_credit_is_kept_only_where_it_is_wanted(runs):
    assert not (runs.result("custom").run_dir / "credit").exists()


def test_pages_have_the_text_that_was_read(runs):
    store = DocumentStore(runs.result("custom").workspace / "store")
    texts = [store.page(ref).text() for ref in store.pages()]
    assert sum(len(text) > 40 for text in texts) > 0.7 * len(texts) > 5


def test_scans_are_found_and_looked_at(runs):
    run = runs.result("custom")
    numbers, played = run.metrics(1), run.trajectories(1)
    assert len({trajectory.sample["doc_id"] for trajectory in played}) > 1
    found = [trajectory for trajectory in played if _hits(trajectory)]
    assert found
    assert all(images(trajectory) for trajectory in found)
    assert not any(images(trajectory) for trajectory in played if not _hits(trajectory))
    assert numbers["docagent/retriever/searches"] > 0
    assert 0 < numbers["docagent/retriever/recall"] <= 1
    assert numbers["docagent/retriever/p99_s"] > 0


def _hits(trajectory):
    """Return the pages that searches found."""
    return [hit for turn in trajectory.turns for search in turn.searches for hit in search["hits"]]

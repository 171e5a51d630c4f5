"""The viewer shows what happened: parts apart, reasons beside totals, no claim without its
evidence.
"""

import json
from dataclasses import replace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.view import view_command
from docagent_rl.envs.outcome import UNJUDGED, Outcome
from docagent_rl.lab.eval.report.paired import compare, paired_table
from tests.commands.conftest import called
from tests.lab.eval.report.scores import SCORE, scored
from tests.lab.viewer.conftest import asked, opened  # noqa: F401  fixtures
from tests.viewer_runs import run_folder, trajectory


@pytest.fixture
def view(store, asked, tmp_path):  # noqa: F811
    """Ask the API about runs of these trajectories, with more files in them."""

    def make(*runs, **written):
        folders = [run_folder(tmp_path / f"run{n}", given) for n, given in enumerate(runs)]
        for name, text in written.items():
            path = folders[-1] / name.replace("__", "/").replace("_json", ".json").replace(
                "_yaml", ".yaml"
            )
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return asked(*folders)

    return make


def test_numbers_of_validation_and_of_training_stand_apart(store, view):
    given = [trajectory(store, 0, reward=1.0), trajectory(store, 0, split="val", reward=0.0)]
    ask = view(given)
    (one,) = ask("/api/runs")["runs"]
    assert one["steps"] == {"train": [1], "val": [1]}
    with pytest.raises(UserError, match="split"):
        ask("/api/compare?a=0&b=0&split=other")
    rows = {
        split: ask(f"/api/runs/0/trajectories?split={split}")["rows"] for split in ("train", "val")
    }
    assert [row["reward"] for row in rows["train"]] == [1.0]
    assert [row["reward"] for row in rows["val"]] == [0.0]


def test_a_masked_trajectory_is_in_no_funnel(store, view):
    masked = trajectory(store, 1, status="masked", end="infrastructure", turns=[], reward=0.0)
    (group,) = view([trajectory(store, 0), masked])("/api/runs/0/funnel")["groups"]
    assert (group["counts"]["all"], group["counts"]["right"]) == (1, 1)


def test_a_right_answer_is_lost_nowhere_and_a_wrong_one_where_its_evidence_stopped(store, view):
    blind = trajectory(store, 1, reward=0.0)
    blind.turns = blind.turns[-1:]
    right = trajectory(store, 2)
    right.turns = right.turns[-1:]
    (group,) = view([trajectory(store, 0), blind, right])("/api/runs/0/funnel")["groups"]
    lost = {stage: count for stage, count in group["lost_counts"].items() if count}
    assert lost == {"sought": 1}
    assert (group["outcomes"]["right"], group["guessed"]) == (2, 1)


def test_an_answer_that_nobody_judged_is_lost_nowhere_and_counted_apart(store, view):
    closed = trajectory(store, 1, reward=0.0)
    closed.outcome = UNJUDGED
    (group,) = view([trajectory(store, 0), closed])("/api/runs/0/funnel")["groups"]
    assert group["outcomes"] == {"right": 1, "wrong": 0, "unjudged": 1}
    assert not any(group["lost_counts"].values())


def test_weights_and_formula_stand_beside_the_terms_of_a_reward(store, view):
    config = "docagent: {system: vrag_rl, env: {variant: paper}}"
    ask = view([trajectory(store)], hydra__config_yaml=config)
    (row,) = ask("/api/runs/0/trajectories")["rows"]
    shown = ask(f"/api/runs/0/trajectories/{row['id']}")["formula"]
    assert shown["text"] == "0.2 retrieval_ndcg + 0.8 outcome"
    assert shown["weights"] == {"retrieval_ndcg": 0.2, "outcome": 0.8, "format": 0.0}


def test_two_rewards_that_differ_are_not_compared_as_one(store, view):
    ask = view(
        [trajectory(store, reward=1.0)],
        [trajectory(store, reward=2.0)],
        hydra__config_yaml="docagent: {system: vrag_rl, env: {variant: released}}",
    )
    assert ask("/api/compare?a=0&b=1&measure=reward&split=train")["same_reward"] is not True


def test_the_page_that_is_shown_is_the_stores_and_a_bad_one_is_said(store, view):
    ask = view([trajectory(store)])
    assert ask.api.answer("/api/runs/0/pages/K/3", "width=40")[1] == "image/jpeg"
    for path in ("/api/runs/0/pages/K/99", "/api/runs/0/pages/nobody/1", "/api/runs/7"):
        with pytest.raises(UserError):
            ask(path)


def test_fewer_than_six_documents_have_no_p_value_and_none_is_zero():
    for documents, known in ((1, False), (5, False), (6, True), (28, True)):
        sides = [
            [scored(n, side, document=f"d{n % documents}") for n in range(28)] for side in (1, 0)
        ]
        found = compare(*sides, [SCORE], draws=20)
        *_, number, p = paired_table(found, "a", "b", "Own").rows[0]
        assert number == str(documents)
        assert (found.numbers[0].p is not None) is known
        assert (p == "-") is not known
        assert p not in ("0", "0.000", "0.0000")


def test_a_question_that_one_run_lacks_is_left_out_and_named():
    found = compare([scored(0, 1), scored(1, 1)], [scored(1, 0), scored(2, 1)], [SCORE], draws=20)
    assert (found.only_in_first, found.only_in_second) == (("q0",), ("q2",))
    assert (found.won, found.lost, found.tied) == (0, 1, 0)


def test_an_outcome_cannot_contradict_its_score():
    with pytest.raises(ValueError, match="right"):
        replace(Outcome.of(1.0), score=0.0)
    with pytest.raises(ValueError, match="unjudged"):
        replace(UNJUDGED, score=0.0)


def test_an_exported_page_needs_no_network(store, tmp_path):
    run = run_folder(tmp_path / "run", [trajectory(store)])
    called(
        view_command,
        run,
        "--store",
        store.path,
        "--export",
        tmp_path / "x.html",
        "--query",
        "step=1",
    )
    page = (tmp_path / "x.html").read_text()
    head = page[: page.index("<style>")]
    assert "default-src 'none'" in head
    assert not [each for each in ("http://", "https://", "src=", "href=") if each in head]
    data = page.split('id="data">')[1].split("</script>")[0]
    assert json.loads(data)

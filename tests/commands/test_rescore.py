"""Stored trajectories are rewarded again with other settings."""

import json
from dataclasses import replace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import Seal
from docagent_rl.commands.playing import run_counter
from docagent_rl.commands.rescore import rescore_command
from docagent_rl.envs.outcome import UNJUDGED
from docagent_rl.envs.token_budget import estimated_tokens
from docagent_rl.lab.viewer.folder import ViewedRun
from docagent_rl.lab.viewer.runs import OpenRun
from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.training.trainer.archive import write_trajectories
from tests.commands.conftest import called
from tests.lab.rescoring.stage import stored_run

EXACT = ("--", "docagent.judge.kind=exact")


def rescored(run, out, *more):
    called(rescore_command, run, "--out", out, *more)
    return json.loads((out / "rescore.json").read_text())


def paid(trajectories):
    """Return the rewards of trajectories, with the tokens and terms of their turns."""
    return [
        (
            each.uid,
            each.number,
            each.reward,
            each.metrics["reward/total"],
            turn.token_ids,
            turn.terms,
        )
        for each in trajectories
        for turn in each.turns
    ]


@pytest.fixture
def small(world, tmp_path):
    """Return a run of one question per step, and the folder into which it is rescored."""
    return stored_run(
        world, tmp_path / "run", "vrag_rl", questions=1
    ), tmp_path / "elsewhere" / "out"


@pytest.mark.parametrize("system", ["vrag_rl", "alden", "unidoc_rl", "doc_v_star", "mm_doc_r1"])
def test_nothing_changed_changes_nothing(world, tmp_path, system):
    run, out = stored_run(world, tmp_path / "run", system, questions=2), tmp_path / "out"
    found = rescored(run, out)
    assert (found["trajectories"], found["same"]) == (16, 1.0)
    assert all(term["changed"] == 0 for term in found["terms"])
    assert found["groups"]["agreement"] == pytest.approx(1.0)
    assert (found["credit"]["flipped"], found["credit"]["correlation"]) == (0.0, pytest.approx(1.0))
    for step in (1, 2):
        old, new = (
            list(read_trajectories(each / "trajectories" / f"{step}.jsonl")) for each in (run, out)
        )
        assert paid(old) == paid(new)


def test_texts_are_counted_by_the_run_s_tokenizer(world, tmp_path, processor):
    model = tmp_path / "model"
    processor.save_pretrained(model)
    tight = {"env": {"history": {"prompt_tokens": 300}}}
    run = stored_run(world, tmp_path / "run", "mm_doc_r1", model=model, **tight)
    text = "What was the headcount in 2024?"
    expected = len(processor.tokenizer.encode(text, add_special_tokens=False))
    for source in (run, run / "trajectories" / "1.jsonl"):
        assert run_counter(source)(text) == expected
    assert rescored(run, tmp_path / "out")["same"] == 1.0
    model.rename(tmp_path / "moved")
    assert rescored(run, tmp_path / "estimated")["same"] < 1.0


def test_other_weights_and_another_estimator(world, tmp_path):
    run, out = stored_run(world, tmp_path / "run", "vrag_rl"), tmp_path / "out"
    overrides = ["docagent.env.variant=released", "algorithm.adv_estimator=rloo"]
    found = rescored(run, out, "--step", 1, "--", *overrides)
    assert (found["overrides"], found["trajectories"]) == (overrides, 16)
    changed = {term["name"]: term["changed"] for term in found["terms"]}
    assert changed["reward"] > 0 == changed["retrieval_ndcg"]
    assert found["credit"]["correlation"] < 1.0


def test_a_variant_without_the_gate_judges_what_the_gate_had_closed(world, tmp_path):
    """In the release, a right answer without a search is unjudged; without the release's gate it is
    right.
    """
    run = stored_run(world, tmp_path / "run", "vrag_rl", questions=1, env={"variant": "released"})
    (searched, *_) = read_trajectories(run / "trajectories" / "1.jsonl")
    blurted = replace(searched, turns=searched.turns[-1:], outcome=UNJUDGED, reward=0.0)
    write_trajectories(run, 1, [blurted])
    sides = {
        "variant=released": ("unjudged", 0.0),
        "reward.gate=false": ("right", 0.7),
        "variant=paper": ("right", 0.8),
    }
    for override, (state, reward) in sides.items():
        out = tmp_path / override
        found = rescored(run, out, "--step", 1, "--", f"docagent.env.{override}")
        counts = {old: sum(after.values()) for old, after in found["outcomes"].items()}
        assert counts == {"right": 0, "wrong": 0, "unjudged": 1}
        assert found["outcomes"]["unjudged"][state] == 1
        assert found["terms"][0]["after"] == pytest.approx(reward)
        (after,) = read_trajectories(out / "trajectories" / "1.jsonl")
        assert after.outcome.state == state
        assert "| unjudged before |" in (out / "rescore.md").read_text()


def test_other_files_are_left_alone(small):
    run, out = small
    mine = out / "trajectories" / "1.jsonl"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    for target, options, named in ((run, (), "--out"), (out, ("--force",), "another folder")):
        with pytest.raises(UserError, match=named):
            rescored(run, target, *options)
    assert (mine.read_text(), (out / "rescore.json").exists()) == ("mine", False)


def test_steps_of_other_values_do_not_stay_and_the_viewer_shows_both(small, tmp_path):
    run, out = small
    rescored(run, out)
    with pytest.raises(UserError, match="nobody"):
        rescored(run, out, "--force", "--", "docagent.judge.kind=nobody")
    with pytest.raises(UserError, match="--force"):
        rescored(run, out)
    with pytest.raises(UserError, match=r"docagent\.jugde\.kind"):
        rescored(run, out, "--force", "--", "docagent.jugde.kind=exact")
    with pytest.raises(UserError, match="train/9"):
        rescored(run, out, "--force", "--step", 9)
    assert (
        len(list((out / "trajectories").glob("*.jsonl"))) == 2
    )  # refused before anything is removed
    assert rescored(run, out, "--force", "--step", 2, *EXACT)["overrides"] == [EXACT[1]]
    assert sorted(path.name for path in (out / "trajectories").iterdir()) == ["2.jsonl"]
    before, after = (OpenRun(n, path.name, ViewedRun(path)) for n, path in enumerate(small))
    assert after.store.path == before.store.path
    assert after.folder.config.docagent.judge.kind == "exact"
    (tmp_path / "mine.jsonl").write_text("")
    for source in (run, tmp_path / "mine.jsonl", tmp_path / "missing"):
        assert run_counter(source) is estimated_tokens


FUNCTION = """
def compute_score(reward_inputs, scale=1.0):
    return [{"overall": scale * each["response_length"]} for each in reward_inputs]
"""


def test_a_reward_function_rewards_stored_trajectories(small, tmp_path):
    run, out = small
    (tmp_path / "mine.py").write_text(FUNCTION)
    found = rescored(
        run,
        out,
        "--",
        f"reward.custom_reward_function.path={tmp_path}/mine.py",
        "+reward.custom_reward_function.reward_kwargs.scale=2",
        "docagent.reward_function.mode=replace",
    )
    terms = {term["name"]: term for term in found["terms"]}
    assert terms["total"]["changed"] == 0
    assert terms["compute_score"]["before"] is None
    assert terms["compute_score"]["after"] == terms["reward"]["after"]
    for step in (1, 2):
        old, new = (
            list(read_trajectories(each / "trajectories" / f"{step}.jsonl")) for each in (run, out)
        )
        sampled = [sum(len(turn.token_ids) for turn in each.turns) for each in old]
        assert [each.reward for each in new] == [2.0 * tokens for tokens in sampled]
    shown = ViewedRun(out).reward
    assert shown.text.startswith("compute_score in place of ")
    assert shown.weights == {"retrieval_ndcg": 0, "outcome": 0, "format": 0, "compute_score": 1.0}


def elsewhere(run, old, new):
    """Return the configuration of a run that was played in another workspace."""
    file = run / "hydra" / "config.yaml"
    Seal(run).write(file, file.read_text().replace(str(old), str(new)))


def test_the_workspace_of_a_run_that_moved_is_named_by_the_environment(
    world, tmp_path, monkeypatch
):
    run, gone = stored_run(world, tmp_path / "run", "vrag_rl", questions=1), "/nowhere/workspace"
    elsewhere(run, world.root, gone)
    monkeypatch.delenv("DOCAGENT_WORKSPACE", raising=False)
    with pytest.raises(UserError, match=rf"{gone}/store.*DOCAGENT_WORKSPACE=FOLDER"):
        rescored(run, tmp_path / "a")
    assert rescored(run, tmp_path / "b", "--", f"docagent.workspace={world.root}")["same"] == 1.0
    monkeypatch.setenv("DOCAGENT_WORKSPACE", str(world.root))
    assert rescored(run, tmp_path / "c")["same"] == 1.0
    assert OpenRun(0, "run", ViewedRun(run)).store.path == world.store.path
    # a workspace that is there stays that of the run
    monkeypatch.setenv("DOCAGENT_WORKSPACE", gone)
    elsewhere(run, gone, world.root)
    assert rescored(run, tmp_path / "d")["same"] == 1.0


def test_what_is_not_as_it_was_written_is_not_rescored(world, tmp_path):
    run = stored_run(world, tmp_path / "run", "vrag_rl", questions=1)
    for name in ("trajectories/2.jsonl", "hydra/config.yaml"):
        whole = (run / name).read_bytes()
        (run / name).write_bytes(whole.replace(b"1", b"3", 1))
        with pytest.raises(UserError, match=rf"{name} does not contain.*docagent-rl check"):
            rescored(run, tmp_path / "out")
        (run / name).write_bytes(whole)

"""Stored sessions paid another way."""

import gc
import json
import weakref

import pytest
import typer
from typer.testing import CliRunner

from docagent_rl.commands.rescore import rescore_command
from docagent_rl.errors import UserError
from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.viewer.folder import ViewedRun
from docagent_rl.viewer.runs import OpenRun
from tests.training.rescoring.stage import stored_run


def called(*arguments):
    app = typer.Typer()
    app.command()(rescore_command)
    found = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def numbers(out):
    return json.loads((out / "rescore.json").read_text())


@pytest.mark.parametrize("system", ["vrag_rl", "alden", "unidoc_rl", "doc_v_star", "mm_doc_r1"])
def test_nothing_changed_changes_nothing(world, tmp_path, system):
    run, out = stored_run(world, tmp_path / "run", system), tmp_path / "out"
    called(run, "--out", out)
    found = numbers(out)
    assert (found["sessions"], found["same"]) == (32, 1.0)
    assert all(term["changed"] == 0 for term in found["terms"])
    assert found["groups"]["agreement"] == 1.0
    assert (found["credit"]["flipped"], found["credit"]["correlation"]) == (0.0, pytest.approx(1.0))
    for step in (1, 2):
        old, new = (list(read_trajectories(each / "trajectories" / f"{step}.jsonl")) for each in (run, out))
        for before, after in zip(old, new, strict=True):
            assert (before.uid, before.session, before.reward) == (after.uid, after.session, after.reward)
            assert [t.token_ids for t in before.turns] == [t.token_ids for t in after.turns]
            assert [t.terms for t in before.turns] == [t.terms for t in after.turns]
            assert after.metrics["reward/total"] == before.metrics["reward/total"]


def test_texts_within_budgets_are_counted_by_the_run_s_tokenizer(world, tmp_path, processor):
    model = tmp_path / "model"
    processor.save_pretrained(model)
    tight = {"env": {"history": {"prompt_tokens": 300}}}
    run = stored_run(world, tmp_path / "run", "mm_doc_r1", model=model, **tight)
    called(run, "--out", tmp_path / "out")
    assert numbers(tmp_path / "out")["same"] == 1.0
    model.rename(tmp_path / "moved")
    called(run, "--out", tmp_path / "estimated")
    assert numbers(tmp_path / "estimated")["same"] < 1.0
    called(run, "--out", tmp_path / "named", "--tokenizer", tmp_path / "moved")
    assert numbers(tmp_path / "named")["same"] == 1.0
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        called(run, "--out", tmp_path / "none", "--tokenizer", tmp_path)


def test_other_weights_and_another_estimator(world, tmp_path):
    run, out = stored_run(world, tmp_path / "run", "vrag_rl"), tmp_path / "out"
    called(
        run, "--out", out, "--step", 1, "--", "docagent.env.variant=released", "algorithm.adv_estimator=rloo"
    )
    found = numbers(out)
    assert found["overrides"] == ["docagent.env.variant=released", "algorithm.adv_estimator=rloo"]
    assert found["sessions"] == 16
    terms = {term["name"]: term for term in found["terms"]}
    assert terms["reward"]["changed"] > 0
    assert terms["retrieval_ndcg"]["changed"] == 0
    assert found["credit"]["turns"] > 16
    assert found["credit"]["correlation"] < 1.0
    assert "Kendall" in (out / "rescore.md").read_text()


def test_other_files_are_left_alone(world, tmp_path):
    run, out = stored_run(world, tmp_path / "run", "vrag_rl", questions=1), tmp_path / "out"
    with pytest.raises(UserError, match="is the run itself"):
        called(run, "--out", run)
    (out / "trajectories").mkdir(parents=True)
    (out / "trajectories" / "1.jsonl").write_text("mine")
    with pytest.raises(UserError, match=r"1\.jsonl"):
        called(run, "--out", out)
    assert (out / "trajectories" / "1.jsonl").read_text() == "mine"
    assert not (out / "rescore.json").exists()
    (out / "trajectories" / "7.jsonl").write_text("mine")
    called(run, "--out", out, "--force")
    assert (out / "trajectories" / "7.jsonl").read_text() == "mine"
    with pytest.raises(UserError, match=r"7\.jsonl"):
        called(run, "--out", out)
    called(run, "--out", out, "--force", "--", "docagent.judge.kind=exact")
    assert (out / "trajectories" / "7.jsonl").read_text() == "mine"
    (out / "trajectories" / "7.jsonl").unlink()
    called(run, "--out", out, "--", "docagent.judge.kind=exact")  # what it wrote itself is replaced
    assert numbers(out)["overrides"] == ["docagent.judge.kind=exact"]


def test_the_viewer_shows_both_with_their_pages(world, tmp_path):
    run, out = stored_run(world, tmp_path / "run", "vrag_rl", questions=1), tmp_path / "elsewhere" / "out"
    called(run, "--out", out, "--", "docagent.env.variant=released")
    before, after = (OpenRun(n, path.name, ViewedRun(path)) for n, path in enumerate((run, out)))
    assert after.store is not None
    assert after.store.path == before.store.path
    assert after.folder.configured("docagent.env.variant") == "released"


def test_steps_of_other_values_do_not_stay(world, tmp_path):
    run, out = stored_run(world, tmp_path / "run", "vrag_rl", questions=1), tmp_path / "out"
    called(run, "--out", out)
    with pytest.raises(UserError):
        called(run, "--out", out, "--", "docagent.judge.kind=nobody")
    assert len(list((out / "trajectories").iterdir())) == 2  # refused before anything is removed
    called(run, "--out", out, "--step", 2, "--", "docagent.judge.kind=exact")
    assert [path.name for path in (out / "trajectories").iterdir()] == ["2.jsonl"]


def test_a_step_is_let_go_before_the_next_is_read(world, tmp_path, monkeypatch):
    run, out = stored_run(world, tmp_path / "run", "vrag_rl", questions=1), tmp_path / "out"
    alive, most = weakref.WeakSet(), []

    def read(file):
        gc.collect()
        most.append(len(list(alive)))
        for session in read_trajectories(file):
            # slots leave no place for a reference: the record has one
            alive.add(kept := Kept(session.record))
            session.record = kept
            yield session

    monkeypatch.setattr("docagent_rl.training.rescoring.stored.read_trajectories", read)
    called(run, "--out", out)
    assert len(most) == 2
    assert max(most) == 0


class Kept(dict):
    """A mapping that can be referred to weakly."""

    __hash__ = object.__hash__

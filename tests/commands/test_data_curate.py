"""Choosing questions from sessions that were really played."""

from __future__ import annotations

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from docagent_rl.commands.data import app
from docagent_rl.errors import UserError
from docagent_rl.play.player import new_trajectory
from docagent_rl.play.run_folder import RunFolder
from docagent_rl.play.runner import Runner, RunSettings
from docagent_rl.play.scripted import ScriptPlayer
from docagent_rl.play.texts import play_texts, said
from docagent_rl.records.parquet import read_parquet
from docagent_rl.records.record import write_jsonl
from tests.play.stage import resources


class Forgetful(ScriptPlayer):
    """Right in so many sessions as the question's number says."""

    async def play(self, sample, session):
        right = int(sample.question_id.rpartition("-")[2])
        if session < right:
            return await ScriptPlayer.play(self, sample, session)

        async def write(trajectory):
            searched = bool(trajectory.turns)
            return said("<answer>nonsense</answer>" if searched else f"<search>{sample.question}</search>")

        env = self.resources.environment()
        return await play_texts(env, sample, write, new_trajectory(sample, session, "vrag_rl"))


@pytest.fixture(scope="module")
async def run(world, tmp_path_factory):
    player = Forgetful(resources(world, "vrag_rl", judge={"kind": "anls"}))
    records = [
        dataclasses.replace(
            record, question_id=f"q-{number % 5}" if number < 5 else f"p{number}-{number % 5}"
        )
        for number, record in enumerate(world.records[:10])
    ]
    folder = RunFolder(tmp_path_factory.mktemp("curate") / "run")
    folder.begin({"player": "forgetful"})
    await Runner(player, "vrag_rl", folder, RunSettings(sessions=4)).run(records)
    return folder.path, records


def curated(*arguments):
    found = CliRunner().invoke(app, ["curate", *map(str, arguments)], env={"COLUMNS": "200"})
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def test_strata_are_drawn_and_stored_with_their_rates(run, tmp_path):
    path, records = run
    rule = ("--rule", "doc_v_star", "--longer-than", "0", "--count", "5")
    found = curated(path, "--out", tmp_path / "rl.parquet", *rule)
    chosen = read_parquet(tmp_path / "rl.parquet")
    # two are easy, six medium, two hard; 0.5, 3.5, 1
    assert sorted(r.extra["pass_rate"]["right"] for r in chosen)[0] == 0
    assert len(chosen) == 5
    by_id = {record.question_id: record for record in records}
    for record in chosen:
        right = int(record.question_id.rpartition("-")[2])
        assert record.extra["pass_rate"] == {"right": right, "sessions": 4}
        assert record.question == by_id[record.question_id].question
    assert "5 questions chosen" in found.output


def test_short_documents_are_left_out_as_in_the_paper(run, tmp_path):
    with pytest.raises(UserError, match="no question is left"):
        curated(run[0], "--out", tmp_path / "rl.parquet", "--rule", "doc_v_star")


def test_what_was_used_and_what_is_kept_apart_is_left_out(run, tmp_path):
    path, records = run
    write_jsonl(records[:2], tmp_path / "used.jsonl")
    write_jsonl(records[2:3], tmp_path / "val.jsonl")
    more = ("--without", tmp_path / "used.jsonl", "--without-documents", tmp_path / "val.jsonl")
    rule = ("--rule", "doc_v_star", "--longer-than", "0", "--count", "10")
    apart = [r for r in records[2:] if r.doc_id == records[2].doc_id]
    rest = [r for r in records[2:] if r.doc_id != records[2].doc_id]
    if not rest:
        with pytest.raises(UserError, match="no question is left"):
            curated(path, "--out", tmp_path / "rl.parquet", *rule, *more)
        more = more[:2]
        rest = records[2:]
    found = curated(path, "--out", tmp_path / "rl.parquet", *rule, *more)
    assert {r.question_id for r in read_parquet(tmp_path / "rl.parquet")} == {r.question_id for r in rest}
    assert "left out: used before" in found.output
    assert apart


def test_windows_of_a_document_that_is_kept_apart_are_left_out(run, tmp_path):
    path, records = run
    window = dataclasses.replace(
        records[2], doc_id="a-window", extra={**records[2].extra, "native_doc_id": records[2].doc_id}
    )
    write_jsonl([window], tmp_path / "val.jsonl")
    rest = {record.question_id for record in records if record.doc_id != records[2].doc_id}
    options = ("--rule", "doc_v_star", "--longer-than", "0", "--count", "10")
    options += ("--without-documents", tmp_path / "val.jsonl")
    if not rest:
        with pytest.raises(UserError, match="no question is left"):
            curated(path, "--out", tmp_path / "rl.parquet", *options)
        return
    found = curated(path, "--out", tmp_path / "rl.parquet", *options)
    assert {r.question_id for r in read_parquet(tmp_path / "rl.parquet")} == rest
    assert "left out: its document is kept apart" in found.output


def test_learnable_questions_of_unidoc_rl(run, tmp_path):
    path, records = run
    verdicts = [{"question_id": records[0].question_id, "dropped_by": "2 answer"}]
    (tmp_path / "verdicts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in verdicts))
    rule = ("--rule", "unidoc_rl", "--prefer", tmp_path / "verdicts.jsonl", "--count", "3")
    curated(path, "--out", tmp_path / "rl.parquet", *rule)
    chosen = read_parquet(tmp_path / "rl.parquet")
    assert len(chosen) == 3
    assert records[0].question_id in {record.question_id for record in chosen}
    assert all(record.extra["pass_rate"]["right"] < 4 for record in chosen)


def test_what_other_filters_drop_is_not_hard(run, tmp_path):
    path, records = run
    steps = {"1 failed": 0, "2 answer": 1, "1 format": 2, None: 3, "3 duplicates": 4}
    verdicts = [{"question_id": records[n].question_id, "dropped_by": step} for step, n in steps.items()]
    verdicts += [{"question_id": records[2].question_id, "dropped_by": None}]
    (tmp_path / "verdicts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in verdicts))
    rule = ("--rule", "unidoc_rl", "--prefer", tmp_path / "verdicts.jsonl", "--count", "1")
    for seed in range(6):
        curated(path, "--out", tmp_path / f"{seed}.parquet", *rule, "--seed", seed)
        assert read_parquet(tmp_path / f"{seed}.parquet")[0].question_id == records[1].question_id


def test_a_question_with_fewer_sessions_than_others_is_left_out(run, tmp_path):
    path, records = run
    lines = (path / "sessions.jsonl").read_text().splitlines(keepends=True)
    short = records[4].question_id
    kept = [line for line in lines if json.loads(line)["record"]["question_id"] != short]
    kept += [line for line in lines if json.loads(line)["record"]["question_id"] == short][:3]
    (tmp_path / "stopped.jsonl").write_text("".join(kept))
    rule = ("--rule", "doc_v_star", "--longer-than", "0", "--count", "10")
    found = curated(tmp_path / "stopped.jsonl", "--out", tmp_path / "rl.parquet", *rule)
    chosen = {record.question_id for record in read_parquet(tmp_path / "rl.parquet")}
    assert chosen == {record.question_id for record in records} - {short}
    assert "left out: fewer sessions than others" in found.output


def test_sessions_that_no_judge_saw_are_not_all_wrong(run, tmp_path):
    lines = [json.loads(line) for line in (run[0] / "sessions.jsonl").read_text().splitlines()]
    for line in lines:
        line["metrics"] = {}
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("--out", tmp_path / "rl.parquet", "--rule", "unidoc_rl")
    with pytest.raises(UserError, match="no session says how right a judge found it"):
        curated(tmp_path / "s.jsonl", *options)
    assert curated(tmp_path / "s.jsonl", *options, "--by", "likeness").exit_code == 0


@pytest.mark.parametrize(("temperature", "told"), [(0.0, True), (1.0, False)])
def test_sessions_that_are_alike_by_their_sampling_are_told(run, tmp_path, temperature, told):
    folder = tmp_path / "run"
    folder.mkdir()
    manifest = json.loads((run[0] / "run.json").read_text())
    manifest["player"] = {"model": "m", "temperature": temperature}
    (folder / "run.json").write_text(json.dumps(manifest))
    (folder / "sessions.jsonl").write_bytes((run[0] / "sessions.jsonl").read_bytes())
    found = curated(folder, "--out", tmp_path / "rl.parquet", "--rule", "unidoc_rl")
    assert ("sampled at temperature 0" in found.output) is told


def test_a_question_that_was_used_under_another_id_is_left_out(run, tmp_path):
    path, records = run
    again = dataclasses.replace(records[0], question_id="other", question=records[0].question.upper())
    write_jsonl([again], tmp_path / "used.jsonl")
    rule = ("--rule", "doc_v_star", "--longer-than", "0", "--count", "10")
    curated(path, "--out", tmp_path / "rl.parquet", *rule, "--without", tmp_path / "used.jsonl")
    chosen = {record.question_id for record in read_parquet(tmp_path / "rl.parquet")}
    assert records[0].question_id not in chosen


def test_sessions_are_held_against_questions(run, tmp_path):
    path, records = run
    write_jsonl(records[:1], tmp_path / "rl.jsonl")
    for sessions in (path, path / "sessions.jsonl"):
        arguments = ("leakage", str(sessions), str(tmp_path / "rl.jsonl"), "--by", "question")
        found = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
        assert found.exit_code == 2, found.output
        assert " 1 pairs of questions that give each other away" in found.output


def test_what_is_no_run_is_told(tmp_path):
    with pytest.raises(UserError, match=r"gone\.jsonl"):
        curated(tmp_path / "gone.jsonl", "--out", tmp_path / "rl.parquet", "--rule", "unidoc_rl")
    (tmp_path / "v.jsonl").write_text("[]\n")
    with pytest.raises(UserError, match=r"\.parquet"):
        curated(tmp_path, "--out", tmp_path / "rl.jsonl", "--rule", "unidoc_rl")
    with pytest.raises(UserError, match="--prefer"):
        curated(tmp_path, "--out", tmp_path / "o", "--rule", "doc_v_star", "--prefer", tmp_path / "v.jsonl")

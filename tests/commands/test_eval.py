"""Evaluations, probes and single questions, with a model on a real server that computes its
replies.
"""

import asyncio
import dataclasses
import json
import os
import shutil
import subprocess
import sys

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.ask import ask_command
from docagent_rl.commands.eval import eval_command, probe_command
from docagent_rl.commands.rescore import rescore_command
from docagent_rl.endpoints.usage import message_tokens
from docagent_rl.lab.viewer.folder import ViewedRun
from docagent_rl.lab.viewer.images import trajectory_image
from docagent_rl.lab.viewer.runs import OpenRun
from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.samples.sample import write_jsonl
from tests.chat_server import ChatServer, completion, serving
from tests.commands.conftest import asked_about, called, on_cpu
from tests.documents.here import files_of
from tests.lab.agents.stage import PlayingModel, texts_of
from tests.retrieval.service.conftest import running

RECIPE = "vrag_rl_qwen2_5_vl_7b"


def ready_or(model):
    """Return a function that replies to questions that the model knows, and with a sign of life to
    others.
    """

    def compute(request):
        known = any(question in str(request["messages"]) for question in model.answers)
        return model(request) if known else completion("ready", usage=(1, 1))

    return compute


class ReadingModel(PlayingModel):
    """A model that answers a question only if the answer is in what it was shown."""

    def __call__(self, request: dict) -> dict:
        messages = request["messages"]
        texts = [
            text for message in messages if message["role"] == "user" for text in texts_of(message)
        ]
        shown = "\n".join(texts)
        question = next(question for question in self.answers if question in shown)
        answer = self.answers[question]
        found = answer in shown.replace(question, "")
        text = f"<answer>{answer if found else 'unknown'}</answer>"
        return completion(text, usage=(message_tokens(messages), 9))


@pytest.fixture
def questions(world, tmp_path):
    return asked_about(world, tmp_path)


def arguments(world, folder, out, *more, url="", agent="system", overrides=()):
    model = ["--model", "m", "--base-url", url] if url else []
    given = [RECIPE, "--data", folder / "questions.jsonl", "--agent", agent, "--out", folder / out]
    return [*given, *model, *more, *on_cpu(world, *overrides)]


async def evaluated(world, folder, out, *more, **options):
    return await asyncio.to_thread(
        called, eval_command, *arguments(world, folder, out, *more, **options)
    )


def played(folder):
    return list(read_trajectories(folder / "trajectories.jsonl"))


@pytest.mark.slow
async def test_a_system_is_played_recorded_and_shown_and_another_run_is_not_gone_on_with(
    world, questions, tmp_path
):
    run, lost = (
        tmp_path / "run",
        dataclasses.replace(questions[2], doc_id="missing", question_id="lost"),
    )
    write_jsonl([*questions, lost], tmp_path / "questions.jsonl")
    async with serving(ChatServer(compute=ready_or(PlayingModel(questions)))) as server:
        told = await evaluated(world, tmp_path, "run", url=server.url)
        asked = len(server.requests)
        await evaluated(world, tmp_path, "run", url=server.url)
        assert len(server.requests) == asked + 1  # the sign of life
        with pytest.raises(UserError, match=r"run"):
            await evaluated(
                world, tmp_path, "run", url=server.url, overrides=["docagent.env.max_turns=2"]
            )
    ids = [sample.question_id for sample in questions]
    *right, masked = played(run)
    found = [(each.uid, each.status, each.metrics["reward/outcome"]) for each in right]
    assert found == [(name, "finished", 1) for name in ids]
    # what cannot be played is wrong and reported
    assert (masked.uid, masked.masked, "'missing'" in told.output) == ("lost", True, True)
    scored = [json.loads(line) for line in (run / "scores.jsonl").read_text().splitlines()]
    rule = {each["question_id"]: each["values"]["rule"] for each in scored}
    assert rule == {**dict.fromkeys(ids, 1.0), "lost": 0.0}
    manifest = json.loads((run / "run.json").read_text())
    named = (manifest["recipe"], manifest["agent"], manifest["player"]["model"]["model"])
    assert named == (RECIPE, "system", "m")
    assert manifest["config"]["docagent"]["store"] == str(world.root / "store")
    assert manifest["config"]["data.max_prompt_length"] == 1536
    assert "+profile=cpu" in manifest["overrides"]


CONDITIONS = ["as_is", "blank", "text_layer", "no_evidence", "shuffled"]


def probed(world, folder, *more):
    given = [RECIPE, "--data", folder / "questions.jsonl", "--out", folder / "probe", *more]
    called(probe_command, *given, *on_cpu(world, "data.max_prompt_length=6000"))
    return folder / "probe"


def left(probe):
    found = json.loads((probe / "probe.json").read_text())["left"]
    assert [each["condition"] for each in found] == CONDITIONS
    return {each["condition"]: each["second"] for each in found}


@pytest.mark.slow
async def test_who_reads_loses_what_is_taken_away(world, tmp_path):
    questions = asked_about(world, tmp_path)
    async with serving(ChatServer(compute=ready_or(ReadingModel(questions)))) as server:
        model = ["--agent", "rag_text", "--model", "m", "--base-url", server.url]
        probe = await asyncio.to_thread(probed, world, tmp_path, *model)
        asked = len(server.requests)
        await asyncio.to_thread(probed, world, tmp_path, *model)
    assert len(server.requests) - asked <= len(CONDITIONS)  # signs of life: nothing is played again
    values = left(probe)
    assert values["as_is"] == values["text_layer"] >= 0.5
    assert values["blank"] <= 1 / 6  # one answer is a number that the prompt happens to hold
    assert max(values["no_evidence"], values["shuffled"]) < values["as_is"]


class SeveralAgents(PlayingModel):
    """A model that plays each agent of the baselines by its instructions."""

    def turn(self, question, number, images):
        raise NotImplementedError

    def __call__(self, request: dict) -> dict:
        messages = request["messages"]
        system, *others = ("\n".join(texts_of(message)) for message in messages)
        answer = next(self.answers[each] for each in self.answers if each in "\n".join(others))
        replies = {
            "between <search>": "<search>all of it</search>",
            '"text":': '{"text": "numbers", "image": "tables"}',
            '"summary":': '{"reason": "so", "summary": "so", "choice": [1]}',
            '"information":': json.dumps({"reason": "so", "answer": answer, "reference": [1]}),
        }
        said = len(messages) > 2
        text = next((text for mark, text in replies.items() if mark in system and not said), None)
        text = text or f"<answer>{answer}</answer>"
        return completion(text, usage=(message_tokens(messages), 9))


@pytest.mark.parametrize(
    ("agent", "turns", "rows"), [("search_r1", 2, 1), ("mdocagent", 5, 5), ("vidorag", 2, 2)]
)
async def test_baselines_of_several_turns_play_with_a_model_on_a_server(
    world, questions, tmp_path, agent, turns, rows
):
    chosen = {"agent": agent, "overrides": ["docagent.env.top_k=2", "docagent.judge.kind=exact"]}
    async with serving(ChatServer(compute=ready_or(SeveralAgents(questions)))) as server:
        await evaluated(world, tmp_path, "run", "--limit", "2", url=server.url, **chosen)
    found = played(tmp_path / "run")
    assert len(found) == 2
    for trajectory in found:
        assert trajectory.system == agent
        assert (len(trajectory.turns), trajectory.turns[-1].row) == (turns, rows - 1)
        assert trajectory.reward == 1.0
        shown = [turn.record.effect.brought for turn in trajectory.turns]
        assert any(shown)
    assert (tmp_path / "run" / "report.md").read_text()


@pytest.mark.parametrize(("url", "agent"), [("", "system"), ("http://x/v1", "random")])
def test_a_model_is_named_where_one_plays(world, questions, tmp_path, url, agent):
    with pytest.raises(UserError, match="model"):
        called(eval_command, *arguments(world, tmp_path, "run", url=url, agent=agent))


def test_a_file_without_questions_is_named(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    given = ["--data", tmp_path / "empty.jsonl", "--out", tmp_path / "run", "--agent", "oracle"]
    for command in (eval_command, probe_command):
        with pytest.raises(UserError, match=r"empty\.jsonl contains no questions"):
            called(command, RECIPE, *given)


async def asked(server, world, folder, question, *more, **expected):
    document = folder / "report.pdf"
    shutil.copyfile(world.root / "synthetic" / "pdfs" / f"{world.samples[0].doc_id}.pdf", document)
    given = [
        document,
        question,
        "--recipe",
        RECIPE,
        "--keep-in",
        folder / "cache",
        "--set",
        "+profile=cpu",
    ]
    given += ["--base-url", server.url, "--model", "m", *more]
    return await asyncio.to_thread(called, ask_command, *given, **expected)


@pytest.mark.slow
async def test_a_question_is_answered_with_the_pages_it_rests_on(world, tmp_path):
    sample = world.samples[0]
    async with serving(ChatServer(compute=ready_or(PlayingModel(world.samples)))) as server:
        found = await asked(server, world, tmp_path, sample.question, "--out", tmp_path / "run")
        before = sorted((tmp_path / "cache").rglob("*"))
        told = await asked(server, world, tmp_path, sample.question, "--json")
    assert sample.answers[0] in found.stdout
    assert "2. crop" in found.stderr
    run = OpenRun(0, "run", ViewedRun(tmp_path / "run"))
    trajectory = json.loads((tmp_path / "run" / "trajectories.jsonl").read_text())
    assert trajectory_image(trajectory, 0, run.store)
    data = json.loads(told.stdout)
    assert (data["answer"], data["evidence"][0]["document"]) == (sample.answers[0], "report")
    assert data["evidence"][0]["regions"]
    assert [turn["action"].split()[0] for turn in data["turns"]] == ["search", "crop", "answer"]
    assert sorted((tmp_path / "cache").rglob("*")) == before


@pytest.mark.slow
async def test_a_store_is_asked_by_an_index_and_by_a_server(world, tmp_path):
    sample, index = world.samples[0], world.root / "index"
    before = files_of(world.root / "store"), files_of(index)
    given = [sample.question, "--recipe", RECIPE, "--store", world.root / "store", "--model", "m"]
    given += ["--keep-in", tmp_path / "cache", "--set", "+profile=cpu", "--json"]
    async with serving(ChatServer(compute=ready_or(PlayingModel(world.samples)))) as server:
        with running(world.store, index) as (_, url):
            for where in (["--index", index], ["--url", url], []):
                asked = [*given, "--base-url", server.url, *where]
                told = await asyncio.to_thread(called, ask_command, *asked)
                data = json.loads(told.stdout)
                found = data["answer"], data["evidence"][0]["document"]
                assert found == (sample.answers[0], sample.doc_id)
    assert (files_of(world.root / "store"), files_of(index)) == before


@pytest.mark.slow
async def test_without_an_answer_the_status_says_so_and_other_runs_are_left_alone(world, tmp_path):
    (tmp_path / "trajectories.jsonl").write_text("mine")
    async with serving(ChatServer(compute=lambda _: completion("I do not know."))) as server:
        found = await asked(server, world, tmp_path, "Who?", status=1)
        with pytest.raises(UserError, match="--out"):
            await asked(server, world, tmp_path, "Who?", "--out", tmp_path)
    assert "turn_limit" in found.stdout


FUNCTION = (
    "def compute_score(data_source, solution_str, ground_truth, extra_info):\n    return {}\n"
)


async def test_a_reward_function_scores_an_evaluation_and_rescores_it(world, tmp_path):
    """The run's folder records which function scored it, and verl's keys select another
    function.
    """
    asked_about(world, tmp_path, 2)
    for name, score in (("one", 2.0), ("two", 5.0)):
        (tmp_path / f"{name}.py").write_text(FUNCTION.format(score))
    own = f"reward.custom_reward_function.path={tmp_path}/one.py"
    more = {"agent": "oracle", "overrides": [own, "docagent.judge.kind=exact"]}
    await evaluated(world, tmp_path, "run", **more)
    found = played(tmp_path / "run")
    assert [each.metrics["reward/compute_score"] for each in found] == [2.0, 2.0]
    assert [each.reward for each in found] == pytest.approx(
        [each.metrics["reward/total"] + 2 for each in found]
    )
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    kept = manifest["player"]["environment"]["reward_function"]
    assert (kept["name"], kept["weight"], len(kept["source"])) == ("compute_score", 1.0, 64)
    # the same run with a function of another content is another run
    (tmp_path / "one.py").write_text(FUNCTION.format(3.0))
    with pytest.raises(UserError, match="source"):
        await evaluated(world, tmp_path, "run", **more)
    other = [
        f"reward.custom_reward_function.path={tmp_path}/two.py",
        "docagent.reward_function.mode=replace",
    ]
    out = tmp_path / "out"
    await asyncio.to_thread(called, rescore_command, tmp_path / "run", "--out", out, "--", *other)
    (file,) = (out / "trajectories").glob("*.jsonl")
    assert [each.reward for each in read_trajectories(file)] == [5.0, 5.0]


async def test_an_evaluation_whose_reward_function_fails_stops_soon_and_says_where(world, tmp_path):
    asked_about(world, tmp_path, 2)
    (tmp_path / "one.py").write_text(FUNCTION.format("solution_str.missing"))
    own = f"reward.custom_reward_function.path={tmp_path}/one.py"
    told = await evaluated(
        world, tmp_path, "run", agent="oracle", overrides=[own, "docagent.judge.kind=exact"]
    )
    assert all(each.masked and each.attempts == 1 for each in played(tmp_path / "run"))
    error = played(tmp_path / "run")[0].error
    for part in (
        repr(world.samples[0].question_id),
        "compute_score (",
        "one.py, line 2",
        "AttributeError",
    ):
        assert part in error
    assert "AttributeError" in told.output


_HEAVY = """
import sys
from docagent_rl.cli import main
sys.argv = ["docagent-rl", *sys.argv[1:]]
try:
    main()
finally:
    heavy = ("torch", "verl", "ray", "vllm", "transformers")
    print([name for name in heavy if name in sys.modules])
"""


@pytest.mark.parametrize("command", ["eval", "probe", "collect"])
def test_questions_that_are_not_there_are_missed_before_anything_is_loaded(command, tmp_path):
    player = ("--player", "oracle") if command == "collect" else ("--agent", "oracle")
    given = (RECIPE, "--data", tmp_path / "gone.jsonl", "--out", tmp_path / "out", *player)
    done = subprocess.run(
        [sys.executable, "-c", _HEAVY, command, *map(str, given)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "400"},
    )
    assert (done.returncode, done.stdout) == (2, "[]\n"), done.stderr
    assert "gone.jsonl" in done.stderr

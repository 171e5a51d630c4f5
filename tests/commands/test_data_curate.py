"""Questions are chosen from trajectories that were really played."""

import dataclasses
import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.data import app
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.agents.runner import Runner, RunSettings
from docagent_rl.lab.agents.scripted import ScriptPlayer
from docagent_rl.lab.agents.texts import play_texts, whole_turn
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.samples.parquet import read_parquet
from docagent_rl.samples.sample import write_jsonl
from tests.commands.conftest import called
from tests.commands.test_data import lines
from tests.lab.agents.stage import resources

DOC_V_STAR = ("--rule", "doc_v_star", "--longer-than", "0", "--count", "100")
UNIDOC_RL = ("--rule", "unidoc_rl")


def right_of(question_id):
    return int(question_id.rpartition("-")[2])


class Forgetful(ScriptPlayer):
    """A player that is right in as many trajectories as the question's number says."""

    async def play(self, sample, trajectory):
        if trajectory < right_of(sample.question_id):
            return await ScriptPlayer.play(self, sample, trajectory)

        async def write(trajectory):
            searched = bool(trajectory.turns)
            return whole_turn(
                "<answer>nonsense</answer>" if searched else f"<search>{sample.question}</search>"
            )

        env = self.resources.environment()
        return await play_texts(env, sample, write, new_trajectory(sample, trajectory, "vrag_rl"))


@pytest.fixture(scope="module")
async def run(world, tmp_path_factory):
    """Return four trajectories each of ten questions: two are easy, six medium, two hard."""
    player = Forgetful(resources(world, "vrag_rl", judge={"kind": "anls"}))
    samples = [
        dataclasses.replace(sample, question_id=f"{number}-{number % 5}")
        for number, sample in enumerate(world.samples[:10])
    ]
    folder = RunFolder(tmp_path_factory.mktemp("curate") / "run")
    folder.begin({"player": "forgetful"})
    await Runner(player, "vrag_rl", folder, RunSettings(trajectories=4)).run(samples)
    return folder.path, samples


def curated(out, trajectories, *options):
    """Return the chosen questions by their ids, and the command's output."""
    found = called(app, "curate", trajectories, "--out", out / "rl.parquet", "--force", *options)
    return {sample.question_id: sample for sample in read_parquet(out / "rl.parquet")}, found.output


def ids(samples):
    return {sample.question_id for sample in samples}


def stored(path):
    return [json.loads(line) for line in (path / "trajectories.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("option", ["--without", "--without-documents"])
def test_what_was_used_and_documents_that_are_kept_apart_are_left_out(run, tmp_path, option):
    path, (first, *rest) = run
    again = dataclasses.replace(first, question_id="other", question=first.question.upper())
    if option == "--without-documents":
        again = dataclasses.replace(
            first, doc_id="w", extra={**first.extra, "native_doc_id": first.doc_id}
        )
        rest = [sample for sample in rest if sample.doc_id != first.doc_id]
    for held in (first, again):
        write_jsonl([held], tmp_path / "held.jsonl")
        chosen, _ = curated(tmp_path, path, *DOC_V_STAR, option, tmp_path / "held.jsonl")
        assert chosen.keys() == ids(rest)


def test_what_other_filters_drop_is_not_hard(run, tmp_path):
    path, samples = run
    steps = {"1 length": 0, "2 answer": 1, "1 format": 2, None: 3}
    verdicts = [
        {"question_id": samples[n].question_id, "dropped_by": step} for step, n in steps.items()
    ]
    verdicts += [{"question_id": samples[2].question_id, "dropped_by": None}]
    prefer = ("--prefer", lines(tmp_path / "verdicts.jsonl", *verdicts), "--count", "1")
    for seed in range(3):
        assert list(curated(tmp_path, path, *UNIDOC_RL, *prefer, "--seed", seed)[0]) == [
            samples[1].question_id
        ]


def test_a_question_with_fewer_trajectories_than_others_is_left_out(run, tmp_path):
    path, samples = run
    short = samples[4].question_id
    own = [line for line in stored(path) if line["sample"]["question_id"] == short]
    rest = [line for line in stored(path) if line["sample"]["question_id"] != short]
    chosen, _ = curated(tmp_path, lines(tmp_path / "stopped.jsonl", *rest, *own[:3]), *DOC_V_STAR)
    assert chosen.keys() == ids(samples) - {short}
    for name, sample in chosen.items():
        assert sample.extra["pass_rate"] == {"right": right_of(name), "trajectories": 4}


def test_trajectories_that_no_judge_saw_are_not_all_wrong(run, tmp_path):
    unjudged = lines(tmp_path / "s.jsonl", *({**line, "outcome": None} for line in stored(run[0])))
    with pytest.raises(UserError, match="judge"):
        curated(tmp_path, unjudged, *UNIDOC_RL)
    assert curated(tmp_path, unjudged, *UNIDOC_RL, "--by", "likeness")[0]


def test_a_question_with_an_unjudged_answer_has_no_pass_rate(run, tmp_path):
    path, samples = run
    chosen_otherwise, unjudged = samples[1].question_id, {"state": "unjudged", "score": None}
    changed = [
        {**line, "outcome": unjudged}
        if (line["sample"]["question_id"], line["number"]) == (chosen_otherwise, 3)
        else line
        for line in stored(path)
    ]
    one = lines(tmp_path / "one.jsonl", *changed)
    chosen, said = curated(tmp_path, one, *UNIDOC_RL)
    assert chosen_otherwise not in chosen
    assert "unjudged answers" in said
    assert chosen_otherwise in curated(tmp_path, path, *UNIDOC_RL)[0]
    every = lines(
        tmp_path / "every.jsonl", *({**line, "outcome": unjudged} for line in stored(path))
    )
    with pytest.raises(UserError, match="judge"):
        curated(tmp_path, every, *UNIDOC_RL)


def test_what_cannot_be_drawn_from_is_told(run, tmp_path):
    prefer = ("--prefer", lines(tmp_path / "v.jsonl", []))
    for trajectories, out, options, message in (
        (tmp_path / "gone.jsonl", "rl.parquet", UNIDOC_RL, r"gone\.jsonl"),
        (tmp_path, "rl.jsonl", UNIDOC_RL, r"\.parquet"),
        (tmp_path, "o", (*DOC_V_STAR, *prefer), "--prefer"),
        (run[0], "rl.parquet", DOC_V_STAR[:2], "longer-than"),  # short documents, as in the paper
    ):
        with pytest.raises(UserError, match=message):
            called(app, "curate", trajectories, "--out", tmp_path / out, *options)

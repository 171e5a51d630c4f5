"""The facts of trajectories of all systems that filters use, and the folders from which
trajectories and filters are read.
"""

import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.envs.outcome import UNJUDGED, Outcome
from docagent_rl.lab.agents.scripted import ScriptPlayer
from docagent_rl.lab.collect.case import case_of
from docagent_rl.lab.collect.collection import check_runs, trajectory_files, with_failures
from docagent_rl.lab.collect.config import CollectConfig, preset_names
from docagent_rl.lab.collect.filters import AnswerFilter, EvidenceFilter, Failed, Format, Scoring
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.trajectory import Status
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.systems import SYSTEMS
from tests.lab.agents.stage import resources
from tests.lab.collect.cases import case


@pytest.mark.parametrize("system", sorted(SYSTEMS))
async def test_the_oracle_passes_every_filter_that_asks_what_it_did(world, system):
    player = ScriptPlayer(resources(world, system, judge={"kind": "anls"}), validate=False)
    sample = world.samples[0]
    found = case_of(await player.play(sample, 0))
    assert found.key == (sample.question_id, 0)
    assert found.references == sample.answers
    assert found.gold == {f"{sample.doc_id}#{page}" for page in sample.evidence_pages}
    assert found.gold <= found.shown
    assert Format().keep([found]) == EvidenceFilter().keep([found]) == [True]
    right = system != "mm_doc_r1" or found.outcome.score == 1
    assert AnswerFilter(threshold=0.5).keep([found]) == [right]
    assert found.listed == (found.gold if system == "doc_v_star" else None)


def test_presets_and_files_of_ones_own(tmp_path):
    for name in preset_names():
        config = CollectConfig.load(name)
        assert config.systems == (name,)
        with pytest.raises(UserError, match=name):
            config.check_system("alden")
    (tmp_path / "own.yaml").write_text(
        "filters: [format, {kind: answer, by: outcome, threshold: 1.0}]\n"
    )
    config = CollectConfig.load(str(tmp_path / "own.yaml"))
    assert config.filters == (Format(), AnswerFilter(by=Scoring.OUTCOME, threshold=1.0))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("filters: [formt]\n", "formt"),
        ("filters: [{kind: answer, threshold: 3}]\n", "threshold"),
        ("[]\n", r"own\.yaml"),
    ],
)
def test_a_wrong_file_is_told(tmp_path, text, named):
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(UserError, match=named):
        CollectConfig.load(str(tmp_path / "own.yaml"))
    with pytest.raises(UserError, match=r"'own'.*doc_v_star, mm_doc_r1, unidoc_rl"):
        CollectConfig.load("own")


@pytest.fixture
def folder(tmp_path):
    """Return a function that makes a folder of these files and of a run of this kind."""

    def make(*names, kind=None):
        folder = tmp_path / "folder-7"
        folder.mkdir()
        for name in names:
            (folder / name).write_text("")
        if kind is not None:
            (folder / "run.json").write_text(json.dumps({"version": 1, "kind": kind}))
        return folder

    return make


def test_of_a_collection_what_its_filters_left_of_an_evaluation_its_trajectories(folder):
    made = folder("trajectories.jsonl", "kept.jsonl", "verdicts.jsonl", kind="collect")
    assert trajectory_files([made]) == [made / "kept.jsonl"]
    (made / "kept.jsonl").unlink()
    with pytest.raises(UserError, match=r"folder-7.*\btrajectories\.jsonl"):
        trajectory_files([made])
    assert trajectory_files([made / "trajectories.jsonl"]) == [made / "trajectories.jsonl"]
    (made / "run.json").write_text('{"version": 1, "kind": "eval"}')
    assert trajectory_files([made]) == [made / "trajectories.jsonl"]


def test_of_other_folders_all_but_what_validated(folder):
    made = folder("1.jsonl", "val-1.jsonl")
    assert trajectory_files([made, made / "val-1.jsonl"]) == [
        made / "1.jsonl",
        made / "val-1.jsonl",
    ]
    (made / "1.jsonl").unlink()
    with pytest.raises(UserError, match="folder-7"):
        trajectory_files([made])


MASKED = "not played"
OUTCOMES = [
    ("solved", Outcome.of(1.0)),
    ("failed", Outcome.of(0.0)),
    ("at times", Outcome.of(0.0)),
    ("at times", Outcome.of(1.0)),
    ("unknown", Outcome.of(0.0)),
    ("unknown", UNJUDGED),
    ("known", Outcome.of(1.0)),
    ("known", UNJUDGED),
    (MASKED, None),
]


@pytest.fixture
def run(tmp_path):
    lines = []
    for number, (question, outcome) in enumerate(OUTCOMES):
        sample = Sample(question, "viddoseek", Split.TRAIN, "d", "Which?", ("blue",))
        played = new_trajectory(sample, number, "unidoc_rl")
        played.status = (Status.MASKED if outcome is None else Status.FINISHED).value
        played.outcome = outcome
        lines.append(played.to_json() + "\n")
    (tmp_path / "trajectories.jsonl").write_text("".join(lines))
    return tmp_path / "trajectories.jsonl"


def test_of_other_datasets_what_the_model_fails_is_kept(run):
    rule = Failed(run=run)
    cases = [case("solved"), case("failed"), case("at times"), case("slide", dataset="slidevqa")]
    cases += [case("unknown"), case("known")]
    found = with_failures(cases, [Format(), rule])
    # whether it fails a question of which an answer is unjudged, and none is right, nobody knows
    assert [each.failed for each in found] == [False, True, False, False, None, False]
    assert rule.keep(found) == [False, True, False, True, False, False]
    assert Failed(run=run, exempt=("made",)).keep(found) == [True, True, True, False, True, True]
    # without the filter nothing is read
    assert with_failures(cases, [Format()]) == cases


def test_what_is_missing_is_told_at_once(run, tmp_path):
    with pytest.raises(UserError, match=r"\b1\b.*'not played'"):
        with_failures([case("solved"), case("not played")], [Failed(run=run)])
    with pytest.raises(UserError, match="failed"):
        with_failures([case()], [Failed(run=run), Failed(run=run)])
    (tmp_path / "empty.jsonl").write_text("")
    for name, missing in ((tmp_path.name, tmp_path), (r"empty\.jsonl", tmp_path / "empty.jsonl")):
        with pytest.raises(UserError, match=name):
            check_runs([Format(), Failed(run=missing)])
    check_runs([Failed(run=run)])

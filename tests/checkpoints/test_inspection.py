import re

import pytest

from docagent_rl.checkpoints.inspection import CheckpointState, inspect
from docagent_rl.checkpoints.manifest import CheckpointCheck, mark_unfinished, write_manifest
from tests.checkpoints.saved import cut, flip, save

FULL, SIZES = CheckpointCheck.FULL, CheckpointCheck.SIZES
MODEL = "actor/model_world_size_1_rank_0.pt"


@pytest.mark.parametrize("check", [FULL, SIZES])
def test_a_finished_checkpoint_is_whole(tmp_path, check):
    folder = save(tmp_path, 3, critic=True)
    assert inspect(folder, check, ("actor", "critic")).state is CheckpointState.WHOLE
    (folder / "notes.txt").write_text("a user's own file")
    assert inspect(folder, check).usable


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        *((file, flip, "checksum") for file in (MODEL, "data.pt")),
        *((file, cut, "bytes") for file in (MODEL, "data.pt")),
        ("actor/huggingface/config.json", lambda path: path.unlink(), "missing"),
        (MODEL, lambda path: (path.unlink(), path.mkdir()), "missing"),
        ("manifest.json", lambda path: flip(path, 60), "checksum"),
        ("manifest.json", cut, "checksum"),
        ("manifest.json", lambda path: path.write_bytes(b""), "checksum"),
    ],
)
def test_damage_is_named_with_its_file(tmp_path, file, damage, message):
    folder = save(tmp_path, 3)
    damage(folder / file)
    verdict = inspect(folder, FULL)
    assert (verdict.state, verdict.usable, len(verdict.problems)) == (
        CheckpointState.DAMAGED,
        False,
        1,
    )
    assert verdict.reason.startswith(f"{file}: ")
    assert message in verdict.reason


def test_sizes_do_not_read_the_tensors(tmp_path, monkeypatch):
    folder = save(tmp_path, 3, check=SIZES)
    cut(folder / MODEL)
    assert MODEL in inspect(folder, SIZES).reason
    monkeypatch.setattr("docagent_rl.checkpoints.inspection._READ_WHOLE", 40_000)
    folder = save(tmp_path, 4, size=20_000)  # 80 kB, more than is read by the way
    flip(folder / MODEL, 40_000)
    assert inspect(folder, SIZES).state is CheckpointState.WHOLE
    assert inspect(folder, FULL).state is CheckpointState.DAMAGED


def test_a_shard_that_the_manifest_does_not_have_and_one_of_another_step_are_damage(tmp_path):
    folder = save(tmp_path, 3)
    (folder / "actor" / "model_world_size_2_rank_0.pt").write_bytes((folder / MODEL).read_bytes())
    (problem,) = inspect(folder, FULL).problems
    assert problem.startswith("actor/model_world_size_2_rank_0.pt: ")
    (problem,) = inspect(save(tmp_path, 5).rename(tmp_path / "global_step_6"), FULL).problems
    assert re.match(r"manifest\.json: .*\b5\b", problem)


def test_what_is_marked_is_not_taken_for_one_of_verl_alone(tmp_path):
    folder = save(tmp_path, 3)
    mark_unfinished(folder)
    assert inspect(folder, FULL).state is CheckpointState.UNFINISHED
    write_manifest(folder, FULL)
    assert inspect(folder, FULL).state is CheckpointState.WHOLE
    assert not list(folder.glob(".*"))


def test_without_a_manifest_what_can_be_seen_is(tmp_path):
    folder = save(tmp_path, 3, ranks=2, check=None)
    assert inspect(folder, FULL).state is CheckpointState.UNSEALED
    (problem,) = inspect(folder, FULL, ("actor", "critic")).problems
    assert "critic/" in problem
    (folder / "actor" / "optim_world_size_2_rank_1.pt").unlink()
    verdict = inspect(folder, FULL)
    assert (verdict.state, len(verdict.problems)) == (CheckpointState.UNFINISHED, 1)
    assert re.match(r"actor/optim_world_size_2: .*\b1\b", verdict.reason)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("data.pt", cut),
        ("data.pt", lambda path: path.write_bytes(b"")),
        ("data.pt", lambda path: path.unlink()),
        (MODEL, cut),
        (MODEL, lambda path: flip(path, path.stat().st_size // 2)),
    ],
)
def test_without_a_manifest_archives_without_an_end_are_seen(tmp_path, file, damage):
    folder = save(tmp_path, 3, check=None)
    damage(folder / file)
    verdict = inspect(folder, FULL)
    assert verdict.state is CheckpointState.UNFINISHED
    assert verdict.reason.startswith(file)

from __future__ import annotations

import re

import pytest

from docagent_rl.checkpoints.inspection import State, inspect
from docagent_rl.checkpoints.manifest import CheckpointCheck, mark_unfinished, write_manifest
from tests.checkpoints.saved import cut, flip, save

FULL, SIZES = CheckpointCheck.FULL, CheckpointCheck.SIZES
MODEL = "actor/model_world_size_1_rank_0.pt"


@pytest.mark.parametrize("check", [FULL, SIZES])
def test_a_finished_checkpoint_is_whole(tmp_path, check):
    folder = save(tmp_path, 3, critic=True)
    assert inspect(folder, check, ("actor", "critic")).state is State.WHOLE
    (folder / "notes.txt").write_text("a user's own file")
    assert inspect(folder, check).usable


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        (MODEL, flip, "its checksum is that of other bytes"),
        (MODEL, cut, "bytes, not"),
        ("data.pt", flip, "its checksum is that of other bytes"),
        ("data.pt", cut, "bytes, not"),
        ("actor/huggingface/config.json", lambda path: path.unlink(), "is missing"),
        ("manifest.json", lambda path: flip(path, 60), "checksum is that of other bytes"),
        ("manifest.json", cut, "it has no checksum"),
        ("manifest.json", lambda path: path.write_bytes(b""), "it has no checksum"),
        (MODEL, lambda path: (path.unlink(), path.mkdir()), "is missing"),
    ],
)
def test_damage_is_named_with_its_file(tmp_path, file, damage, message):
    folder = save(tmp_path, 3)
    damage(folder / file)
    verdict = inspect(folder, FULL)
    assert verdict.state is State.DAMAGED
    assert not verdict.usable
    assert len(verdict.problems) == 1
    assert verdict.reason.startswith(f"{file}: ")
    assert message in verdict.reason


def test_sizes_do_not_read_the_tensors(tmp_path):
    folder = save(tmp_path, 3, check=SIZES)
    cut(folder / MODEL)
    assert "bytes, not" in inspect(folder, SIZES).reason
    folder = save(tmp_path, 4, size=20_000_000)  # 80 MB, more than is read by the way
    flip(folder / MODEL, 40_000_000)
    assert inspect(folder, SIZES).state is State.WHOLE
    assert inspect(folder, FULL).state is State.DAMAGED


def test_a_shard_that_the_manifest_does_not_have_is_damage(tmp_path):
    folder = save(tmp_path, 3)
    (folder / "actor" / "model_world_size_2_rank_0.pt").write_bytes((folder / MODEL).read_bytes())
    assert inspect(folder, FULL).problems == (
        "actor/model_world_size_2_rank_0.pt: the manifest does not have it",
    )


def test_a_manifest_of_another_step_is_damage(tmp_path):
    folder = save(tmp_path, 3).rename(tmp_path / "global_step_4")
    assert inspect(folder, FULL).problems == ("manifest.json: it is of step 3",)


def test_what_is_marked_is_not_taken_for_one_of_verl_alone(tmp_path):
    """All of it may be there, and the sessions under way of an asynchronous mode not."""
    folder = save(tmp_path, 3)
    mark_unfinished(folder)
    verdict = inspect(folder, FULL)
    assert verdict.state is State.UNFINISHED
    assert verdict.reason == "the run ended while it was saved or removed"
    write_manifest(folder, FULL)
    assert inspect(folder, FULL).state is State.WHOLE
    assert not list(folder.glob(".*"))


def test_without_a_manifest_what_can_be_seen_is(tmp_path):
    folder = save(tmp_path, 3, ranks=2, check=None)
    assert inspect(folder, FULL).state is State.UNSEALED
    assert inspect(folder, FULL, ("actor", "critic")).problems == ("critic/ is missing",)
    (folder / "actor" / "optim_world_size_2_rank_1.pt").unlink()
    verdict = inspect(folder, FULL)
    assert verdict.state is State.UNFINISHED
    assert verdict.problems == ("actor/optim_world_size_2: the files of rank 1 are missing",)


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("data.pt", cut, "data.pt: was cut off or is damaged"),
        ("data.pt", lambda path: path.write_bytes(b""), "data.pt: was cut off or is damaged"),
        ("data.pt", lambda path: path.unlink(), "data.pt is missing, which is saved last"),
        (MODEL, cut, f"{MODEL}: was cut off or is damaged"),
        (MODEL, lambda path: flip(path, path.stat().st_size // 2), f"{MODEL}: its part .* is damaged"),
    ],
)
def test_without_a_manifest_archives_without_an_end_are_seen(tmp_path, file, damage, message):
    folder = save(tmp_path, 3, check=None)
    damage(folder / file)
    verdict = inspect(folder, FULL)
    assert verdict.state is State.UNFINISHED
    assert re.match(message, verdict.reason)


def test_no_position_of_a_flipped_bit_goes_unseen(tmp_path):
    folder = save(tmp_path, 3, size=10)
    for name in (MODEL, "data.pt", "manifest.json"):
        data = (folder / name).read_bytes()
        for position in range(0, len(data), 53):
            flip(folder / name, position)
            assert inspect(folder, FULL).state is State.DAMAGED, (name, position)
            (folder / name).write_bytes(data)
    assert inspect(folder, FULL).state is State.WHOLE

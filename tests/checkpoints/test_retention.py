import shutil
from contextlib import suppress

import pytest

from docagent_rl.base.seals import read_seal
from docagent_rl.checkpoints.audit import audit_checkpoints, audit_run
from docagent_rl.checkpoints.inspection import CheckpointState, inspect
from docagent_rl.checkpoints.manifest import (
    CheckpointCheck,
    mark_unfinished,
    sealing,
    step_folder,
    step_folders,
    step_of,
)
from docagent_rl.checkpoints.retention import Retention
from tests.checkpoints.saved import save


def whole(root):
    return [
        step_of(path) for path in step_folders(root) if inspect(path, CheckpointCheck.FULL).usable
    ]


def saved(retention, root, *steps):
    for step in steps:
        retention.make_room(step_folder(root, step))
        retention.add(save(root, step, critic=True))


@pytest.mark.parametrize(
    ("keep", "during", "after"), [(1, 1, [5]), (2, 1, [5, 4]), (3, 2, [5, 4, 3])]
)
def test_one_whole_checkpoint_is_there_at_any_time(tmp_path, keep, during, after):
    retention = Retention({"actor": keep, "critic": keep})
    for step in range(1, 6):
        retention.make_room(step_folder(tmp_path, step))
        assert len(whole(tmp_path)) == min(step - 1, during)
        retention.add(save(tmp_path, step, critic=True))
    assert whole(tmp_path) == after
    assert [step_of(path) for path in step_folders(tmp_path)] == after


def test_a_step_that_is_saved_again_by_other_ranks_keeps_no_earlier_shards(tmp_path):
    retention = Retention({"actor": None})
    folder = save(tmp_path, 1, ranks=2)
    retention.make_room(folder)
    retention.add(save(tmp_path, 1, ranks=1))
    names = [path.name for path in (folder / "actor").glob("*.pt")]
    assert len(names) == 3
    assert all("_world_size_1_" in name for name in names)
    assert whole(tmp_path) == [1]


def test_parts_have_limits_of_their_own(tmp_path):
    saved(Retention({"actor": 1, "critic": None}), tmp_path, 1, 2)
    first = tmp_path / "global_step_1"
    assert sorted(path.name for path in first.iterdir()) == [".unfinished", "critic", "data.pt"]
    assert whole(tmp_path) == [2]


def test_files_of_a_user_stay(tmp_path):
    retention = Retention({"actor": 1})
    retention.add(save(tmp_path, 1))
    (tmp_path / "global_step_1" / "merged").mkdir()
    retention.add(save(tmp_path, 2))
    assert [path.name for path in (tmp_path / "global_step_1").iterdir()] == ["merged"]
    audit = audit_checkpoints(tmp_path)
    assert (
        audit.damages,
        audit.notes[0].startswith(f"{tmp_path / 'global_step_1'} was removed"),
    ) == (
        [],
        True,
    )


def test_the_seal_knows_what_is_saved_and_what_is_retired(tmp_path):
    run, retention = tmp_path / "run", Retention({"actor": 2})
    for step in (1, 2, 3, 4):
        folder = run / "checkpoints" / f"global_step_{step}"
        with sealing(run, folder):
            retention.make_room(folder)
            retention.add(save(folder.parent, step))
    known = {name for name in read_seal(run).records if name.endswith("manifest.json")}
    assert known == {f"checkpoints/global_step_{step}/manifest.json" for step in (3, 4)}
    audit = audit_run(run)
    assert (audit.damages, audit.unsealed, audit.notes) == ([], [], [])
    with suppress(KeyboardInterrupt), sealing(run, folder):
        retention.make_room(folder)
        raise KeyboardInterrupt  # a kill in the midst of saving the step again
    audit = audit_run(run)
    assert [each.path for each in audit.damages] == [folder]
    assert any(f"{folder / 'manifest.json'} is not sealed" in each for each in audit.unsealed)


def resumed(root, step, keep=2, **parts):
    """Return the retention of another start, which resumes from a step."""
    retention = Retention({"actor": keep, **parts})
    retention.adopt(root, step)
    return retention


def test_checkpoints_of_earlier_starts_count(tmp_path):
    for start in (0, 2, 3, 4):
        saved(resumed(tmp_path, start, critic=2), tmp_path, start + 1, start + 2)
    assert whole(tmp_path) == [6, 5]


def test_the_one_that_a_run_goes_on_from_stays_until_another_is_whole(tmp_path):
    saved(Retention({"actor": 2}), tmp_path, 1, 2)
    retention = resumed(tmp_path, 2, keep=1)
    retention.make_room(step_folder(tmp_path, 3))
    assert whole(tmp_path) == [2]
    retention.add(save(tmp_path, 3))
    assert whole(tmp_path) == [3]


def test_later_ones_and_those_of_others_stay(tmp_path):
    """The later checkpoint's step is repeated. A checkpoint of verl alone has no manifest, and the
    manifest of a damaged one does not match.
    """
    for step in (1, 2, 3, 4, 9):
        save(tmp_path, step)
    (tmp_path / "global_step_1" / "manifest.json").unlink()
    with (tmp_path / "global_step_2" / "data.pt").open("ab") as file:
        file.write(b"more")
    saved(resumed(tmp_path, 4, keep=1), tmp_path, 5)
    assert [step_of(path) for path in step_folders(tmp_path)] == [9, 5, 2, 1]


@pytest.mark.parametrize("models", [True, False])
def test_a_removal_that_was_broken_off_is_finished(tmp_path, models):
    """The removal was interrupted before or after the models were removed."""
    saved(Retention({"actor": 3}), tmp_path, 1, 2, 3)
    first = tmp_path / "global_step_1"
    mark_unfinished(first)
    if not models:
        for part in ("actor", "critic"):
            shutil.rmtree(first / part)
    retention = resumed(tmp_path, 3, critic=None)
    assert first.exists() == models
    saved(retention, tmp_path, 4)
    assert (first / "actor").exists() is False
    assert whole(tmp_path) == [4, 3]


def test_the_best_of_earlier_starts_stays(tmp_path):
    saved(Retention({"actor": 2}), tmp_path, 1, 2)
    retention = resumed(tmp_path, 2)
    retention.rate(step_folder(tmp_path, 1), 0.9)
    retention.rate(step_folder(tmp_path, 2), 0.1)
    saved(retention, tmp_path, 3, 4)
    assert whole(tmp_path) == [4, 3, 1]


@pytest.mark.parametrize("keep", [None, 0, -1])
def test_no_limit_keeps_all(tmp_path, keep):
    saved(Retention({"actor": keep}), tmp_path, 1, 2, 3)
    assert whole(tmp_path) == [3, 2, 1]


def test_a_step_that_is_saved_again_costs_no_other(tmp_path):
    retention = Retention({"actor": 2})
    saved(retention, tmp_path, 1, 2)
    retention.make_room(step_folder(tmp_path, 2))
    assert inspect(tmp_path / "global_step_1", CheckpointCheck.FULL).state is CheckpointState.WHOLE
    assert not (tmp_path / "global_step_2" / "manifest.json").exists()


def test_the_best_by_validation_stays_until_a_better_one_comes(tmp_path):
    retention = Retention({"actor": 1, "critic": 1})
    left = []
    for step, score in enumerate([0.2, 0.5, 0.4, None, 0.5, 0.1], 1):
        saved(retention, tmp_path, step)
        if score is not None:
            retention.rate(step_folder(tmp_path, step), score)
        left.append(whole(tmp_path))
    # the newest, and the best that was known when it was saved
    assert left == [[1], [2, 1], [3, 2], [4, 2], [5, 2], [6, 5]]

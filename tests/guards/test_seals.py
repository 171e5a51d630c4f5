"""Files on disk contain what was written, or `check` names them."""

import shutil

import numpy as np
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import Seal
from docagent_rl.checkpoints.audit import audit_run
from docagent_rl.checkpoints.file_status import require_whole
from docagent_rl.checkpoints.manifest import sealing
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.agents.run_folder import RunFolder, trajectories_of
from docagent_rl.rollout.credit import CreditRow, write_credit
from docagent_rl.training.trainer.archive import write_metrics, write_trajectories
from tests.checkpoints.saved import save
from tests.training.trainer.test_archive import trajectory

KINDS = ("hydra/{}.yaml", "trajectories/{}.jsonl", "metrics/{}.json", "credit/{}.parquet")


@pytest.fixture
def run(tmp_path):
    """Return a run of two steps, whose configuration is in two files."""
    run = tmp_path / "run"
    for step in (1, 2):
        Seal(run).write(run / "hydra" / f"{step}.yaml", f"lr: 0.{step}\n")
        write_trajectories(run, step, [trajectory(f"q{step}", 0)])
        write_metrics(run, step, {"reward": 0.5 * step})
        credit = {"advantages": np.full(3, step, np.float32)}
        write_credit(run, step, "grpo", [CreditRow("u", 0, 0, credit)])
        with sealing(run, run / "checkpoints" / f"global_step_{step}"):
            save(run / "checkpoints", step)
    assert said(run) == ""
    return run


def said(folder):
    audit = audit_run(folder)
    return "\n".join([*(str(each.path) for each in audit.damages), *audit.unsealed, *audit.notes])


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_whose_file_was_lost_emptied_edited_or_exchanged_is_not_called_whole(run, kind):
    file, other = run / kind.format(2), run / kind.format(1)
    whole = file.read_bytes()
    for spoilt in (
        None,
        b"",
        whole[:-1] + bytes([whole[-1] ^ 1]),
        whole[:-1],
        whole * 2,
        other.read_bytes(),
    ):
        file.unlink() if spoilt is None else file.write_bytes(spoilt)
        assert str(file) in said(run)
    file.write_bytes(whole)
    added = shutil.copy(file, run / kind.format(3))
    assert str(added) in said(run)


def test_a_checkpoint_in_the_place_of_another_is_not_called_whole(run, tmp_path):
    with sealing(tmp_path / "other", tmp_path / "other" / "checkpoints" / "global_step_2"):
        save(tmp_path / "other" / "checkpoints", 2, size=77)
    place = run / "checkpoints" / "global_step_2"
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "other" / "checkpoints" / "global_step_2", place)
    assert str(place) in said(run)


def test_a_kill_between_a_file_and_its_seal_is_told_from_damage_and_from_a_whole_file(run):
    file = run / "metrics" / "3.json"
    Seal(run).begin([file])
    file.write_text("{}")
    audit = audit_run(run)
    assert audit.damages == []
    assert [str(file) in line for line in audit.unsealed] == [True]
    Seal(run).adopt()
    assert [str(file) in line for line in audit_run(run).notes] == [True]


def test_a_seal_that_was_edited_or_lost_vouches_for_nothing(run):
    seal = run / "seal.jsonl"
    lines = seal.read_bytes().splitlines(keepends=True)
    exchanged = [lines[1], lines[0], *lines[2:]]
    for spoilt in (lines[1:], lines[:3] + lines[4:], [*lines, lines[-1]], exchanged, []):
        seal.write_bytes(b"".join(spoilt))
        assert str(seal) in said(run)
    seal.unlink()
    assert str(seal) in said(run)


def test_what_users_do_with_a_run_is_no_damage(run, tmp_path):
    copied = shutil.copytree(run, tmp_path / "elsewhere")
    (copied / "wandb").mkdir()
    (copied / "notes.md").write_text("mine")
    assert said(copied) == ""
    shutil.rmtree(copied / "checkpoints")
    assert audit_run(copied).damages == []


def test_no_number_is_made_of_a_damaged_file(run, tmp_path):
    file = run / "trajectories" / "2.jsonl"
    file.write_bytes(file.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(UserError, match=str(file)):
        require_whole([file])
    folder = RunFolder(tmp_path / "eval")
    folder.begin({})
    with folder.writing() as append:
        append(trajectory("q", 0))
    folder.trajectories_file.write_bytes(
        folder.trajectories_file.read_bytes().replace(b"0", b"1", 1)
    )
    with pytest.raises(UserError, match=str(folder.trajectories_file)):
        trajectories_of(folder.path)


def test_a_store_that_lost_a_document_says_which(world, tmp_path):
    store = shutil.copytree(world.store.path, tmp_path / "store")
    assert audit_store(store).damages == []
    lost = DocumentStore(store).doc_ids()[0]
    StoreLayout(store).manifest(lost).unlink()
    assert [repr(lost) in each.problem for each in audit_store(store).damages] == [True]

import copy
import json
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.manifest import TRACKER, CheckpointCheck, sealing
from docagent_rl.checkpoints.resume import choose_checkpoint, named_checkpoint
from docagent_rl.checkpoints.sharding import RECORD
from docagent_rl.checks.recipe_check import composed_recipe
from tests.checkpoints.saved import cut, flip, save

FULL = CheckpointCheck.FULL
GRPO, ALDEN = "vrag_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b"
MODEL = "actor/model_world_size_1_rank_0.pt"
BY_VERL = ("auto", None)


@cache
def recipe_config(recipe: str):
    return composed_recipe(recipe, ["+profile=cpu"])


def settled(root, recipe=GRPO, check=FULL, **changes):
    """Return how verl is configured to resume: (mode, path)."""
    config = copy.deepcopy(recipe_config(recipe))
    for name, value in {"trainer.default_local_dir": str(root), **changes}.items():
        OmegaConf.update(config, name, value)
    choose_checkpoint(config, check)
    return config.trainer.resume_mode, config.trainer.resume_from_path


def at(root, step) -> tuple[str, str]:
    return "resume_path", str(root / f"global_step_{step}")


def test_new_runs_and_whole_checkpoints_are_left_to_verl(tmp_path, caplog):
    assert settled(tmp_path / "none") == BY_VERL
    for step in (1, 2):
        save(tmp_path, step)
    assert settled(tmp_path) == BY_VERL
    assert not caplog.records


@pytest.mark.parametrize(
    ("file", "damage"), [("data.pt", flip), ("data.pt", cut), (MODEL, cut), (MODEL, Path.unlink)]
)
def test_a_damaged_checkpoint_gives_way_to_the_last_good_one(tmp_path, caplog, file, damage):
    for step in (1, 2, 3):
        save(tmp_path, step)
    damage(tmp_path / "global_step_3" / file)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert settled(tmp_path) == at(tmp_path, 2)
    (record,) = caplog.records
    assert re.search(rf"global_step_3.*{file}: .*global_step_2", record.getMessage())
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"\xff\xfe\x00", b"-1", b"9" * 40, None, b"7"]
)
def test_a_tracker_that_names_nothing_gives_way_to_the_last_good_one(tmp_path, caplog, content):
    for step in (1, 2):
        save(tmp_path, step)
    cut(save(tmp_path, 3) / "data.pt")
    (tmp_path / TRACKER).unlink()
    if content is not None:
        (tmp_path / TRACKER).write_bytes(content)
    assert settled(tmp_path) == at(tmp_path, 2)
    assert ("global_step_7" if content == b"7" else str(tmp_path)) in caplog.text


def test_a_tracker_that_was_set_back_is_followed(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step)
    (tmp_path / TRACKER).write_text("2")
    assert settled(tmp_path) == BY_VERL
    flip(tmp_path / "global_step_2" / "data.pt")
    assert settled(tmp_path) == at(tmp_path, 1)
    assert settled(tmp_path, check=CheckpointCheck.OFF) == BY_VERL


def test_what_is_being_saved_is_not_taken(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2, check=None, tracked=False)
    (tmp_path / "global_step_2" / "data.pt").unlink()
    assert settled(tmp_path) == BY_VERL
    (tmp_path / TRACKER).unlink()
    assert settled(tmp_path) == at(tmp_path, 1)


def test_a_run_killed_in_its_first_checkpoint_starts_again(tmp_path, caplog):
    cut(save(tmp_path, 1, check=None, tracked=False) / MODEL)
    assert settled(tmp_path) == ("disable", None)
    assert "global_step_1" in caplog.text


@pytest.mark.parametrize("tracked", [True, False])
def test_damage_alone_never_starts_a_run_from_the_beginning(tmp_path, tracked):
    flip(save(tmp_path, 1, tracked=tracked) / "data.pt")
    with pytest.raises(UserError, match="resume_mode=disable") as caught:
        settled(tmp_path)
    assert "global_step_1" in str(caught.value)
    assert settled(tmp_path, **{"trainer.resume_mode": "disable"}) == ("disable", None)


def test_checkpoints_of_verl_alone_are_taken_with_a_warning(tmp_path, caplog):
    for step in (1, 2):
        save(tmp_path, step, check=None)
    assert settled(tmp_path) == BY_VERL
    assert "global_step_2" in caplog.text
    cut(tmp_path / "global_step_2" / MODEL)
    assert settled(tmp_path) == at(tmp_path, 1)
    assert "global_step_1 has no manifest" in caplog.text


def test_a_named_checkpoint_is_taken_or_refused(tmp_path):
    for step in (1, 2):
        save(tmp_path, step)
    path = f"{tmp_path}/global_step_2/"
    named = {"trainer.resume_mode": "resume_path", "trainer.resume_from_path": path}
    assert settled(tmp_path, **named) == at(tmp_path, 2)
    flip(tmp_path / "global_step_2" / "data.pt")
    with pytest.raises(UserError, match=r"data\.pt: "):
        settled(tmp_path, **named)
    with pytest.raises(UserError, match=r"global_step_9: "):
        named_checkpoint(tmp_path / "global_step_9", FULL)
    with pytest.raises(UserError, match="global_step_<number>"):
        named_checkpoint(tmp_path / "global_step_x", FULL)


def test_a_critic_has_to_be_there_where_one_is_trained(tmp_path):
    save(tmp_path, 1, critic=True)
    assert settled(tmp_path, ALDEN) == BY_VERL
    save(tmp_path, 2)
    assert settled(tmp_path) == BY_VERL
    assert settled(tmp_path, ALDEN) == at(tmp_path, 1)


def test_another_number_of_ranks_goes_on_with_a_notice(tmp_path, caplog):
    save(tmp_path, 1, ranks=2, critic=True)
    for recipe in (GRPO, ALDEN):
        caplog.clear()
        assert settled(tmp_path, recipe) == BY_VERL
        assert re.search(r"saved by 2 ranks, and this run has 1\b", caplog.text)
        caplog.clear()
        assert settled(tmp_path, recipe, **{"trainer.n_gpus_per_node": 2}) == BY_VERL
        assert not caplog.records


def test_shards_of_an_earlier_save_by_other_ranks_do_not_count(tmp_path, caplog):
    """verl alone does not remove them when the step is saved again."""
    save(tmp_path, 1, ranks=1, check=None)
    save(tmp_path, 1, ranks=2)
    assert settled(tmp_path) == BY_VERL
    assert "saved by 2 ranks" in caplog.text


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"actor_rollout_ref.actor.strategy": "fsdp"}, "4 ranks with FSDP1"),
        (
            {"actor_rollout_ref.actor.fsdp_config.fsdp_size": 2},
            "2 x 2 ranks with HSDP",
        ),
        ({"critic.fsdp.fsdp_size": 1}, "critic was saved by .* 4 x 1 ranks with HSDP"),
    ],
)
def test_shards_that_cannot_be_distributed_anew_are_refused(tmp_path, changes, named):
    folder = save(tmp_path, 1, ranks=2, critic=True)
    ranks = {"trainer.n_gpus_per_node": 4}
    assert settled(tmp_path, ALDEN, **ranks) == BY_VERL
    with pytest.raises(UserError, match=named) as caught:
        settled(tmp_path, ALDEN, **ranks, **changes)
    assert "Resume with 2 ranks" in str(caught.value)
    assert settled(tmp_path, ALDEN, **changes | {"trainer.n_gpus_per_node": 2}) == BY_VERL
    (folder / "actor" / RECORD).write_text(json.dumps({"FSDP_version": 1, "world_size": 2}))
    with pytest.raises(UserError, match="saved by 2 ranks with FSDP1"):
        settled(tmp_path, ALDEN, check=CheckpointCheck.SIZES, **ranks)


def test_without_a_record_the_number_has_to_be_the_same(tmp_path):
    folder = save(tmp_path, 1, ranks=2, check=None)
    (folder / "actor" / RECORD).unlink()
    assert settled(tmp_path, **{"trainer.n_gpus_per_node": 2}) == BY_VERL
    with pytest.raises(UserError, match=rf"actor was saved by 2 ranks.*{RECORD}.*restore"):
        settled(tmp_path)


def test_asynchronous_saves_are_refused(tmp_path):
    with pytest.raises(UserError, match="async_save=true"):
        settled(tmp_path, **{"actor_rollout_ref.actor.checkpoint.async_save": True})


def test_a_checkpoint_of_another_run_is_not_gone_on_from(tmp_path, caplog):
    """The checkpoint is complete, and of the step that its folder's name states."""
    for name, size in (("one", 100), ("other", 200)):
        for step in (1, 2):
            with sealing(tmp_path / name, tmp_path / name / "checkpoints" / f"global_step_{step}"):
                save(tmp_path / name / "checkpoints", step, size=size)
    one, other = (tmp_path / name / "checkpoints" / "global_step_2" for name in ("one", "other"))
    shutil.rmtree(one)
    shutil.copytree(other, one)
    assert settled(one.parent) == at(one.parent, 1)
    assert "the checkpoint is of another run" in caplog.text
    with pytest.raises(UserError, match="of another run"):
        named_checkpoint(one, FULL)
    # a copy elsewhere belongs to no run
    shutil.copytree(other, tmp_path / "kept" / "global_step_2")
    assert named_checkpoint(tmp_path / "kept" / "global_step_2", FULL).folder

"""Released dialogues become a run, and its trajectories the rows of supervised training."""

import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.data_replay import replay_command
from docagent_rl.commands.data_sft import sft_command
from docagent_rl.lab.sft.rows import SftFile
from tests.checks.conftest import RECIPES
from tests.commands.conftest import called, on_cpu
from tests.lab.collect.released import dialogue


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from docagent_rl.lab.tiny.model import build_tiny_model

    folder = tmp_path_factory.mktemp("model")
    build_tiny_model(folder)
    return folder


def replayed(world, folder, rows, *more, system="unidoc_rl"):
    (folder / "unidoc_sft.json").write_text(json.dumps(rows))
    sizes = ("max_turns=10", "image_limit=22") if system == "unidoc_rl" else ()
    overrides = on_cpu(world, *(f"++docagent.env_cpu.{size}" for size in sizes))
    given = [RECIPES[system], folder, "--out", folder / "run", *more, *overrides]
    return called(replay_command, *given).output


def test_dialogues_that_play_become_rows_and_the_others_have_a_reason(world, tmp_path, model):
    rows = [dialogue(world), dialogue(world, box="[[9, 9, 1, 1]]"), {"question": "none"}]
    said = replayed(world, tmp_path, rows)
    assert "1 of 3 dialogues play" in said
    lines = (tmp_path / "run" / "rejected.jsonl").read_text().splitlines()
    reasons = {each["row"]: each["reason"] for each in map(json.loads, lines)}
    assert list(reasons) == ["unidoc_sft#000001", "unidoc_sft#000002"]
    assert reasons["unidoc_sft#000001"].startswith("a box is not on its page: ")
    # the same again changes nothing
    assert "1 of 3" in replayed(world, tmp_path, rows)

    target = tmp_path / "rows.parquet"
    store = world.root / "store"
    called(sft_command, tmp_path / "run", "--model", model, "--store", store, "--out", target)
    (only,) = SftFile(target)
    assert (only.question_id, len(only.images)) == ("unidoc_sft#000000", 9)
    assert 0 < sum(only.loss_mask) < len(only.loss_mask)


def test_a_folder_in_which_nothing_plays_is_an_error(world, tmp_path):
    with pytest.raises(UserError, match=r"no dialogue plays; .*rejected\.jsonl"):
        replayed(world, tmp_path, [dialogue(world, box="[[9, 9, 1, 1]]")])
    with pytest.raises(UserError, match="unidoc_rl"):
        replayed(world, tmp_path, [dialogue(world)], system="vrag_rl")

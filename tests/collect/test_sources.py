from __future__ import annotations

import json

import pytest

from docagent_rl.collect.sources import session_files
from docagent_rl.errors import UserError


@pytest.fixture
def folder(tmp_path):
    """Makes a folder of these files, and of a run of this kind."""

    def make(*names, kind=None):
        folder = tmp_path / "folder-7"
        folder.mkdir()
        for name in names:
            (folder / name).write_text("")
        if kind is not None:
            (folder / "run.json").write_text(json.dumps({"version": 1, "kind": kind}))
        return folder

    return make


def test_of_a_collection_what_its_filters_left(folder):
    made = folder("sessions.jsonl", "kept.jsonl", "verdicts.jsonl", kind="collect")
    assert session_files([made]) == [made / "kept.jsonl"]
    (made / "kept.jsonl").unlink()
    with pytest.raises(UserError, match=r"folder-7.*\bsessions\.jsonl"):
        session_files([made])
    assert session_files([made / "sessions.jsonl"]) == [made / "sessions.jsonl"]


def test_of_an_evaluation_its_sessions(folder):
    made = folder("sessions.jsonl", "kept.jsonl", kind="eval")
    assert session_files([made]) == [made / "sessions.jsonl"]


def test_of_other_folders_all_but_what_validated(folder):
    made = folder("1.jsonl", "val-1.jsonl")
    assert session_files([made, made / "val-1.jsonl"]) == [made / "1.jsonl", made / "val-1.jsonl"]
    (made / "1.jsonl").unlink()
    with pytest.raises(UserError, match="folder-7"):
        session_files([made])

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docagent_rl.collect.sources import session_files
from docagent_rl.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("sessions.jsonl", "kept.jsonl", "verdicts.jsonl", "1.jsonl", "val-1.jsonl"):
        (tmp_path / name).write_text("")
    return tmp_path


def manifest(folder: Path, kind: str) -> None:
    (folder / "run.json").write_text(json.dumps({"version": 1, "kind": kind}))


def test_of_a_collection_what_its_filters_left(folder):
    manifest(folder, "collect")
    assert session_files([folder]) == [folder / "kept.jsonl"]
    (folder / "kept.jsonl").unlink()
    with pytest.raises(UserError, match=folder.name):
        session_files([folder])
    assert session_files([folder / "sessions.jsonl"]) == [folder / "sessions.jsonl"]


def test_of_an_evaluation_its_sessions(folder):
    manifest(folder, "eval")
    assert session_files([folder]) == [folder / "sessions.jsonl"]


def test_of_other_folders_all_but_what_validated(folder):
    for name in ("sessions.jsonl", "kept.jsonl", "verdicts.jsonl"):
        (folder / name).unlink()
    assert session_files([folder, folder / "val-1.jsonl"]) == [folder / "1.jsonl", folder / "val-1.jsonl"]
    (folder / "1.jsonl").unlink()
    with pytest.raises(UserError, match=r"\.jsonl"):
        session_files([folder])

"""Files of a download besides those that are read."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.importers.download import folder_listing, unread
from docagent_rl.lab.importers.source import ImportSource

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"


def test_an_archive_is_no_file_of_questions(files):
    path = files.text("questions.zip", "PK")
    with pytest.raises(UserError, match=r"questions\.zip: .*\.parquet; unpack an archive"):
        ImportSource(path)


def test_a_pointer_of_git_lfs_is_named_as_one(files):
    for name in ("train.parquet", "rows.jsonl"):
        path = files.text(name, POINTER)
        with pytest.raises(UserError, match=rf"{name}: this is only a Git LFS pointer"):
            list(ImportSource(files.root).rows(path))


def test_an_error_lists_what_there_is(files):
    files.root.mkdir()
    assert folder_listing(files.root) == "nothing"
    for name in ("b.zip", "a/c.txt", ".git/config"):
        files.text(name, "")
    assert folder_listing(files.root) == "a/, b.zip"
    for number in range(9):
        files.text(f"{number}.txt", "")
    assert (
        folder_listing(files.root)
        == "0.txt, 1.txt, 2.txt, 3.txt, 4.txt, 5.txt, 6.txt, 7.txt and 3 more"
    )


def test_files_that_a_pattern_finds_are_named_wherever_they_lie(files):
    read = files.json("train.json", [])
    for name in ("more/val.json", "more/notes.json", "test.parquet"):
        files.text(name, "")
    (files.root / "folder.json").mkdir()
    assert unread(files.root, [read], ["train.json more/val.json"]) == [
        "more/val.json",
        "test.parquet",
    ]

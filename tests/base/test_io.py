import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_dir, atomic_write

KILLED = {
    "folder": """
import os, signal, sys
from docagent_rl.base.io import atomic_dir
with atomic_dir(sys.argv[1]) as folder:
    (folder / "part").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
""",
    "file": """
import os, signal, sys
from docagent_rl.base import io
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
io.atomic_write(sys.argv[1], "half")
""",
}


def test_a_file_is_replaced_whole(tmp_path):
    atomic_write(tmp_path / "a", "old")
    atomic_write(tmp_path / "a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"new")]


@pytest.mark.parametrize("kind", KILLED)
def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path, kind):
    target, other = tmp_path / "index", tmp_path / "index.v2"
    for path in (target, target, other):
        subprocess.run([sys.executable, "-c", KILLED[kind], str(path)], check=False)
    assert len(list(tmp_path.iterdir())) == 3
    for text in ("one", "two"):
        if kind == "file":
            written = atomic_write(target, text)
        else:
            with atomic_dir(target) as folder:
                (folder / "a").write_text(text)
            written = target / "a"
        assert written.read_text() == text
        (foreign,) = set(tmp_path.iterdir()) - {target}
        assert foreign.name.startswith(".index.v2.")


def test_what_a_living_writer_has_is_left_alone(tmp_path):
    target = tmp_path / "index"
    with atomic_dir(target) as slow:
        with atomic_dir(target) as fast:
            (fast / "a").write_text("fast")
        (slow / "a").write_text("slow")
    assert (target / "a").read_text() == "slow"
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_writer_leaves_the_old_directory(tmp_path):
    target = tmp_path / "index"
    with atomic_dir(target) as folder:
        (folder / "a").write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_dir(target):
        raise ZeroDivisionError
    assert (target / "a").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_half_a_character_loses_no_file_and_bytes_are_written_as_they_are(tmp_path):
    written = atomic_write(tmp_path / "a" / "file", "before \ud83d after é")
    assert written.read_bytes() == "before ? after é".encode()
    assert atomic_write(tmp_path / "file", b"\xed\xa0\xbd").read_bytes() == b"\xed\xa0\xbd"


def test_writers_of_one_file_at_a_time_leave_each_other_alone(tmp_path):
    def write(text: str) -> None:
        for _ in range(40):
            atomic_write(tmp_path / "a", text)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, ("one", "two", "three", "four")))
    assert (tmp_path / "a").read_text() in ("one", "two", "three", "four")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_cannot_be_written_is_named_with_what_to_do(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file/a"):
        atomic_write(tmp_path / "file" / "a", "x")
    refused = pytest.raises(UserError, match="file/b")
    with refused, atomic_dir(tmp_path / "file" / "b"):
        raise AssertionError("never reached")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(UserError, match="large"):
            atomic_write(tmp_path / "large", "x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

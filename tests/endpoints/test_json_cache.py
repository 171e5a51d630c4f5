from __future__ import annotations

import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from diskcache.core import MODE_PICKLE

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.remote_model import JsonCache


def test_keeps_json(tmp_path):
    cache = JsonCache(tmp_path, "test cache")
    for key, value in {"a": "text", "b": False, "c": [1, {"x": None}]}.items():
        assert cache.get(key) is None
        cache.put(key, value)
        assert JsonCache(tmp_path, "test cache").get(key) == value


def test_the_first_value_stays(tmp_path):
    caches = [JsonCache(tmp_path / "made", "test cache") for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda n: caches[n % 4].put_first("plan", f"plan {n}"), range(32)))
    assert len(set(kept)) == 1
    assert kept[0] == caches[0].get("plan")
    caches[0].put("plan", "another")
    assert caches[1].put_first("plan", "late") == "another"


def test_never_unpickles(tmp_path):
    JsonCache(tmp_path, "test cache").put("a", "text")
    with sqlite3.connect(tmp_path / "cache.db") as database:
        database.execute("UPDATE Cache SET mode = ?", (MODE_PICKLE,))
    with pytest.raises(UserError, match="pickled"):
        JsonCache(tmp_path, "test cache").get("a")


def test_what_is_never_written_leaves_no_folder(tmp_path):
    cache = JsonCache(tmp_path / "run" / "replies", "test cache")
    assert cache.get("a") is None
    assert not (tmp_path / "run").exists()
    other = JsonCache(tmp_path / "run" / "replies", "test cache")
    other.put("a", "text")
    assert cache.get("a") == "text"


@pytest.mark.parametrize("below", ["", "replies"])
def test_a_folder_that_is_a_file(tmp_path, below):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=f"test cache .*{below}"):
        JsonCache(tmp_path / "file" / below, "test cache")


@pytest.mark.parametrize(
    "row", [b"no zlib", zlib.compress(b'{"half'), zlib.compress(b"\xff"), zlib.compress(b"[" * 99_999)]
)
def test_damaged_rows_are_a_failing_service(tmp_path, row):
    JsonCache(tmp_path, "test cache").put("a", "text")
    with sqlite3.connect(tmp_path / "cache.db") as database:
        database.execute("UPDATE Cache SET value = ?", (row,))
    with pytest.raises(InfrastructureError, match=f"test cache {tmp_path}"):
        JsonCache(tmp_path, "test cache").get("a")


def test_a_damaged_database_is_a_failing_service(tmp_path):
    cache = JsonCache(tmp_path, "test cache")
    cache.put("a", "text")
    with sqlite3.connect(tmp_path / "cache.db") as database:
        database.execute("DROP TABLE Cache")
    for use in (lambda: cache.get("a"), lambda: cache.put("b", 1), lambda: cache.put_first("b", 1)):
        with pytest.raises(InfrastructureError, match="test cache"):
            use()

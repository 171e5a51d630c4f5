from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
from diskcache.core import MODE_PICKLE

from docagent_rl.errors import UserError
from docagent_rl.json_cache import JsonCache


def test_keeps_json(tmp_path):
    cache = JsonCache(tmp_path, "test cache")
    for key, value in {"a": "text", "b": False, "c": [1, {"x": None}]}.items():
        assert cache.get(key) is None
        cache.put(key, value)
        assert JsonCache(tmp_path, "test cache").get(key) == value
    cache.close()


def test_the_first_value_stays(tmp_path):
    caches = [JsonCache(tmp_path, "test cache") for _ in range(4)]
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


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"test cache .*file cannot be opened"):
        JsonCache(tmp_path / "file", "test cache")

from __future__ import annotations

import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from diskcache.core import MODE_PICKLE

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.json_cache import JsonCache


def test_the_first_value_stays(tmp_path):
    caches = [JsonCache(tmp_path / "made", "test cache") for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda n: caches[n % 4].put("plan", f"plan {n}"), range(32)))
    assert len(set(kept)) == 1
    assert kept[0] == caches[0].get("plan")


def test_keeps_json_in_a_folder_that_is_made_with_the_first_value(tmp_path):
    cache = JsonCache(tmp_path / "run" / "replies", "test cache")
    assert cache.get("a") is None
    assert not (tmp_path / "run").exists()
    for key, value in {"a": "text", "b": False, "c": [1, {"x": None}]}.items():
        JsonCache(tmp_path / "run" / "replies", "test cache").put(key, value)
        assert cache.get(key) == value


@pytest.mark.parametrize("below", ["", "replies"])
def test_a_folder_that_is_a_file(tmp_path, below):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=f"test cache .*{below}"):
        JsonCache(tmp_path / "file" / below, "test cache")


@pytest.mark.parametrize(
    ("column", "value", "error"),
    [
        ("mode", MODE_PICKLE, UserError),
        ("value", b"no zlib", InfrastructureError),
        ("value", zlib.compress(b'{"half'), InfrastructureError),
    ],
)
def test_damaged_rows_and_such_as_ask_to_be_unpickled(tmp_path, column, value, error):
    JsonCache(tmp_path, "test cache").put("a", "text")
    with sqlite3.connect(tmp_path / "cache.db") as database:
        database.execute(f"UPDATE Cache SET {column} = ?", (value,))
    with pytest.raises(error, match=f"cache {tmp_path}"):
        JsonCache(tmp_path, "test cache").get("a")

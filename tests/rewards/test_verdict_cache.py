from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
from diskcache.core import MODE_PICKLE

from docagent_rl.base.errors import UserError
from docagent_rl.rewards.verdict_cache import VerdictCache


def test_keeps_verdicts(tmp_path):
    cache = VerdictCache(tmp_path)
    assert cache.get("a") is None
    cache.put("a", False)
    cache.put("b", True)
    cache.close()
    assert VerdictCache(tmp_path).get("a") is False
    assert VerdictCache(tmp_path).get("b") is True


def test_many_threads(tmp_path):
    cache = VerdictCache(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: cache.put(str(n), n % 2 == 0), range(64)))
        assert list(pool.map(lambda n: cache.get(str(n)), range(64))) == [n % 2 == 0 for n in range(64)]


def test_never_unpickles(tmp_path):
    cache = VerdictCache(tmp_path)
    cache.put("a", True)
    with sqlite3.connect(tmp_path / "cache.db") as database:
        database.execute("UPDATE Cache SET mode = ?", (MODE_PICKLE,))
    with pytest.raises(UserError, match="pickled"):
        VerdictCache(tmp_path).get("a")

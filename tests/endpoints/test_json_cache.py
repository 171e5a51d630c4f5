from concurrent.futures import ThreadPoolExecutor

import pytest

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


@pytest.mark.parametrize("damage", [b"", b'"half', b"\xff", b"[" * 100_000])
def test_a_damaged_file_counts_as_absent(tmp_path, damage):
    cache = JsonCache(tmp_path, "test cache")
    cache.put("ab12", "text")
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    file.write_bytes(damage)
    assert cache.get("ab12") is None
    assert cache.put("ab12", "again") == cache.get("ab12") == "again"


def test_a_disk_that_fails_is_named(tmp_path):
    cache = JsonCache(tmp_path, "test cache")
    (tmp_path / "ab").touch()
    for fails in (lambda: cache.get("ab12"), lambda: cache.put("ab12", 1)):
        with pytest.raises(InfrastructureError, match=f"cache {tmp_path}"):
            fails()

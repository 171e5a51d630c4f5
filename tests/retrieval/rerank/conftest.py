"""Tiny rerankers, made once."""

from functools import cache

import pytest

from tests.tiny_rerankers import build_reranker


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """Return the folder of a tiny reranker."""
    root = tmp_path_factory.mktemp("tiny_rerankers")
    return cache(lambda kind: build_reranker(kind, root / kind.value))

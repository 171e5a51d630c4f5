"""Tiny rerankers, made once."""

from __future__ import annotations

import pytest

from tests.tiny_rerankers import TinyReranker, build_reranker


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """The folder of a tiny reranker."""
    root, made = tmp_path_factory.mktemp("tiny_rerankers"), {}

    def folder(kind: TinyReranker):
        if kind not in made:
            made[kind] = build_reranker(kind, root / kind.value)
        return made[kind]

    return folder

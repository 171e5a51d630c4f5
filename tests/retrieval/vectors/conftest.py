from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from docagent_rl.retrieval.vectors.build import build_index
from docagent_rl.retrieval.vectors.index import Kind
from tests.retrieval.vectors.encoders import HashingEncoder, vectors

LATE = Kind.LATE_INTERACTION
WORDS = ["cat", "dog", "bird", "tree", "rose", "grow", "iron", "gold", "tin", "mat", "sat", "the", "a", "of"]
QUERIES = HashingEncoder().encode_queries(["the cat sat", "gold", "tree of iron and roses"])


def texts(seed: int, pages: int) -> list[str]:
    """Pages of 0 to 12 words, some of them the same."""
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=random.choice([0, 1, 5, 5, 9, 12]))) for _ in range(pages)]


CORPUS = {f"doc-{number:02}": texts(number, 1 + number * 5 % 13) for number in range(12)}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory, make_store):
    """Twelve documents."""
    return make_store(tmp_path_factory.mktemp("vectors"), CORPUS)


@pytest.fixture(scope="session")
def built(corpus, tmp_path_factory) -> Path:
    """An index of `corpus`; not to be changed."""
    path = tmp_path_factory.mktemp("built") / "index"
    build_index(corpus, vectors(), path, kind=LATE)
    return path


@pytest.fixture
def index(built, tmp_path) -> Path:
    """A copy of `built`, to be changed."""
    return Path(shutil.copytree(built, tmp_path / "index"))

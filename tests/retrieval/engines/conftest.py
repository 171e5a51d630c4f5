"""Collections of every engine that runs here."""

from tests.retrieval.vectors.conftest import build, built, corpus, found, where  # noqa: F401

"""Shared fixtures; end-to-end tests run last."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "e2e" in Path(item.path).parts:
            item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: item.get_closest_marker("e2e") is not None)


@pytest.fixture(scope="session")
def processor():
    """The tiny model's processor: real classes, small tokenizer."""
    from docagent_rl.testing.processor import build_processor
    from docagent_rl.testing.tokenizer import build_tokenizer

    return build_processor(build_tokenizer())

"""What docs/retrieval/service.md tells people to set."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from docagent_rl.commands.serve import serve_command
from docagent_rl.envs.search_log import SearchNote, search_metrics
from docagent_rl.retrieval.config import RetrieverConfig, ServerApi, ServiceConfig

PAGE = (Path(__file__).parents[2] / "docs" / "retrieval" / "service.md").read_text()


def test_keys_and_options_that_are_named_exist():
    keys = set(re.findall(r"docagent\.retriever\.service\.(\w+)", PAGE))
    assert {"url", "replicas", "token_env", "api"} <= keys <= set(ServiceConfig.model_fields)
    assert set(re.findall(r"docagent\.retriever\.(\w+)", PAGE)) <= set(RetrieverConfig.model_fields)
    known = {name.replace("_", "-") for name in inspect.signature(serve_command).parameters}
    told = set(re.findall(r"--([a-z][a-z-]+)", PAGE)) - {"config-name", "restart", "sessions", "kill"}
    assert told <= known
    assert all(api.value in PAGE for api in ServerApi)


def test_every_number_is_told_of():
    turns = {
        1: [
            SearchNote("r", "a", None, 5, frozenset(), (), 0.1),
            SearchNote("r", "b", None, 5, frozenset(), (), 0.1),
        ]
    }
    from docagent_rl.documents import PageRef

    names = {name.partition("/")[2] for name in search_metrics(turns, {PageRef("d", 1)})}
    assert "turn_recall/1" in names
    assert all(f"`{name}`" in PAGE for name in names - {"turn_recall/1"})

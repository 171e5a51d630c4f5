from __future__ import annotations

import sys
import types

import pytest
from pydantic import ValidationError

from docagent_rl.errors import UserError
from docagent_rl.retrieval import registry
from docagent_rl.retrieval.config import RetrieverConfig


class First:
    """Finds nothing, whatever the query."""

    def __init__(self, store, index, depth=1):
        self.store, self.index, self.depth = store, index, depth

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        return [[] for _ in queries]


def broken(**_):
    raise ZeroDivisionError("by nothing")


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("own_retriever")
    made.First, made.broken, made.number = First, broken, 3
    monkeypatch.setitem(sys.modules, "own_retriever", made)


def test_a_class_of_ones_own_gets_the_store_and_its_options(store, module, tmp_path):
    config = RetrieverConfig(kind="own_retriever:First", index=tmp_path, options={"depth": 3})
    found = registry.open_local(config, store)
    assert (found.store, found.index, found.depth) == (store, tmp_path, 3)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"kind": "bm52"}, r"docagent\.retriever\.kind=bm52.*hybrid"),
        ({"kind": "own_retriever:None_"}, "None_"),
        ({"kind": "own_retriever:number"}, "number"),
        ({"kind": "own_retriever:broken"}, "ZeroDivisionError"),
        ({"kind": "own_retriever:First", "options": {"width": 1}}, "width"),
        ({"kind": "builtins:dict"}, "search"),
        ({"kind": "no_such_module:A"}, "no_such_module"),
        ({"kind": "bm25"}, r"docagent\.retriever\.index"),
    ],
)
def test_what_cannot_be_opened_is_one_error(store, module, config, named):
    with pytest.raises(UserError, match=named):
        registry.open_local(RetrieverConfig(**config), store)


def test_a_function_is_registered_once(store, monkeypatch):
    monkeypatch.setattr(registry, "_OWN", {})

    @registry.register("mine")
    def mine(config, store):
        return First(store, config.index)

    registry.register("mine")(mine)
    assert "mine" in registry.kinds()
    assert isinstance(registry.open_local(RetrieverConfig(kind="mine"), store), First)
    for taken in ("mine", "bm25"):
        with pytest.raises(UserError, match=taken):
            registry.register(taken)(lambda config, store: First(store, None))


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"kind": "a b"}, "kind"),
        ({"backend": "http"}, r"service\.url"),
        ({"weights": {"text": 1.0}}, "weights"),
        ({"parts": {"text": {}}, "weights": {"text": float("inf")}}, "weights"),
    ],
)
def test_impossible_sections_are_refused(section, named):
    with pytest.raises(ValidationError, match=named):
        RetrieverConfig.model_validate(section)


def test_indexes_are_listed_with_their_keys(tmp_path):
    parts = {name: {"index": tmp_path / name} for name in ("text", "image")}
    config = RetrieverConfig.model_validate({"kind": "hybrid", "parts": parts})
    expected = [(f"key.parts.{name}.index", tmp_path / name) for name in parts]
    assert list(config.indexes("key")) == expected
    service = {"url": "http://localhost:1"}
    served = RetrieverConfig.model_validate({"index": tmp_path, "backend": "http", "service": service})
    assert list(served.indexes("key")) == []

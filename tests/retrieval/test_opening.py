import pytest
from pydantic import ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval import opening
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.opening import open_before_run, open_hybrid


class First:
    """A retriever that finds nothing, whatever the query."""

    def __init__(self, store, index, depth=1):
        self.store, self.index, self.depth = store, index, depth

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        return [[] for _ in queries]


def broken(**_):
    raise ZeroDivisionError("by nothing")


def test_a_class_of_ones_own_gets_the_store_and_its_options(store, tmp_path):
    config = RetrieverConfig(kind=f"{__name__}:First", index=tmp_path, options={"depth": 3})
    found = opening.open_local(config, store)
    assert (found.store, found.index, found.depth) == (store, tmp_path, 3)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"kind": "bm52"}, r"docagent\.retriever\.kind=bm52.*hybrid"),
        ({"kind": f"{__name__}:None_"}, "None_"),
        ({"kind": f"{__name__}:__name__"}, "__name__"),
        ({"kind": f"{__name__}:broken"}, "ZeroDivisionError"),
        ({"kind": f"{__name__}:First", "options": {"width": 1}}, "width"),
        ({"kind": "builtins:dict"}, "search"),
        ({"kind": "no_such_module:A"}, "no_such_module"),
        ({"kind": "bm25"}, r"docagent\.retriever\.index"),
    ],
)
def test_what_cannot_be_opened_is_one_error(store, config, named):
    with pytest.raises(UserError, match=named):
        opening.open_local(RetrieverConfig(**config), store)


@pytest.mark.parametrize("changes", [{}, {"backend": "ray"}])
def test_a_configuration_is_opened(bm25, saved, store, changes):
    """Before Ray runs, parts that belong in actors are opened in this process."""
    parts = {"one": {"index": saved, **changes}, "two": {"index": saved}}
    config = RetrieverConfig.model_validate({"kind": "hybrid", "parts": parts})
    (found,) = (open_before_run if changes else open_hybrid)(config, store).search(["cat"], top_k=2)
    (alone,) = bm25.search(["cat"], top_k=2)
    assert [hit.ref for hit in found] == [hit.ref for hit in alone] != []
    assert found[0].score == 1


def test_impossible_sections_and_hybrids_are_refused(store):
    for section, named in (({"kind": "a b"}, "kind"), ({"backend": "http"}, r"service\.url")):
        with pytest.raises(ValidationError, match=named):
            RetrieverConfig.model_validate(section)
    for section, named in (
        ({}, r"retriever\.parts"),
        ({"parts": {"a": {"kind": "bm52"}}}, r"docagent\.retriever\.parts\.a\.kind=bm52"),
        ({"parts": {"a": {"index": None}}}, r"parts\.a\.index"),
    ):
        with pytest.raises(UserError, match=named):
            open_hybrid(RetrieverConfig.model_validate({"kind": "hybrid", **section}), store)

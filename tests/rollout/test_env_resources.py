"""Environments without a model."""

from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import Face, derive
from tests.lab.agents.stage import resources


def test_a_role_of_the_policy_is_refused(world):
    shared = resources(world, "mm_doc_r1", roles={"answer": {"backend": "policy"}})
    with pytest.raises(UserError, match=r"roles\.answer\.backend.*roles\.answer\.base_url"):
        shared.environment()


def test_documents_that_are_shown_may_be_others(world, tmp_path):
    doc_id = world.store.doc_ids()[0]
    white = derive(world.store, tmp_path / "white", [doc_id], lambda _: Face(None, None), lambda *_: ())
    shared = resources(world, "vrag_rl", shown_store=white.path)
    assert shared.services.store.document(doc_id).page(1).text() == ""
    hits = shared.services.retriever.retriever.search(["revenue"], top_k=3)
    assert hits  # what is searched is as it was
    with pytest.raises(UserError, match=tmp_path.name):
        resources(world, "vrag_rl", shown_store=tmp_path)

"""A question of one's own, whose answer nobody knows, and a configuration that can play it."""

from __future__ import annotations

import hashlib

from omegaconf import DictConfig, OmegaConf, open_dict

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.sections import SearchScope
from docagent_rl.lab.eval.ask.library import Shelf
from docagent_rl.records.record import Record, Split
from docagent_rl.systems import get_system

DATASET = "ask"
NOT_KNOWN = "(the answer is not known)"
"""Environments score against a reference, and agents are never shown it."""


def own_question(shelf: Shelf, question: str) -> Record:
    """The record of a question about documents of one's own.

    Raises:
        UserError: there is no question.
    """
    asked = question.strip()
    if not asked:
        raise UserError("ask a question: docagent-rl ask DOC.pdf 'What ...?'")
    doc_id = shelf.doc_ids[0]
    key = "\0".join([*shelf.doc_ids, asked])
    return Record(
        question_id=hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16],
        dataset=DATASET,
        split=Split.TEST,
        doc_id=doc_id,
        question=asked,
        answers=(NOT_KNOWN,),
        extra={
            "gold": None,
            "num_pages": DocumentStore(shelf.store).document(doc_id).num_pages,
            "native_id": None,
            "row": 0,
        },
    )


def set_for_asking(run: DictConfig, shelf: Shelf) -> None:
    """Have a recipe play documents of one's own: no gold pages, and no judge, since nothing is scored.

    Args:
        run: the composed configuration, changed in place.
        shelf: the documents.

    Raises:
        UserError: there are several documents, and the system plays one at a time.
    """
    with open_dict(run):
        run.docagent.workspace = str(shelf.workspace)
        run.docagent.store = str(shelf.store)
        run.docagent.judge = OmegaConf.create({"kind": "exact"})
        run.docagent.provision = None
        parsed = DocAgentConfig.parse(plain(run.docagent))
        system = get_system(parsed.system)
        changes: dict = {}
        if "allow_empty_gold" in system.config_type.model_fields:
            changes["allow_empty_gold"] = True
        if len(shelf.doc_ids) > 1:
            scope = getattr(getattr(system.parse_config(parsed.env), "search", None), "scope", None)
            if scope is None:
                raise UserError(
                    f"{system.name} plays one document at a time, and {len(shelf.doc_ids)} are named: ask "
                    "about one, or take a recipe that searches several, e.g. --recipe vrag_rl_qwen2_5_vl_7b"
                )
            changes["search"] = {"scope": SearchScope.CORPUS.value}
        for section in ("env", "env_cpu"):
            given = run.docagent.get(section) or {}
            run.docagent[section] = OmegaConf.merge(given, OmegaConf.create(changes))

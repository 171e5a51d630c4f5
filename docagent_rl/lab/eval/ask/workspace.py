"""A user's own documents, ingested and indexed once, by content, and questions about them."""

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.objects import file_digest
from docagent_rl.documents.sources import SourceDocument, SourceKind
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.views import SearchScope
from docagent_rl.retrieval.config import Backend
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.systems import get_system

_VERSION = 1
_NAME = 48
DATASET = "ask"
NOT_KNOWN = "(the answer is not known)"
"""Environments score against a reference, and agents are never shown it."""


def cache_folder() -> Path:
    """Return the folder of documents that are asked about: `docagent-rl` in the user's cache."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "docagent-rl"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A recipe's workspace that holds some documents alone, in the order in which they were named."""

    folder: Path
    doc_ids: tuple[str, ...]

    @property
    def store(self) -> Path:
        """The document store."""
        return self.folder / "store"


def prepare(documents: Sequence[Path], root: Path, settings: RenderSettings | None = None) -> Workspace:
    """Ingest PDFs, or find them ingested in `root`: the same files again are there at once, from any folder.

    Raises:
        UserError: a file is missing or cannot be read as a document, or the folder cannot be written.
    """
    settings = settings or RenderSettings()
    digests = []
    for document in documents:
        if not document.is_file():
            raise UserError(f"{document}: no such file; name a PDF")
        digests.append(file_digest(document))
    if len(set(digests)) < len(digests):
        raise UserError("the same document is named twice")
    key = json.dumps([_VERSION, digests, [each.name for each in documents], repr(settings)])
    folder = root / hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:20]
    names = [_name(each) for each in documents]
    if len({name.casefold() for name in names}) < len(names):
        names = [f"{name}-{digest[:8]}" for name, digest in zip(names, digests, strict=True)]
    workspace = Workspace(folder, tuple(names))
    try:
        store = DocumentStore(workspace.store)
        whole = all(name in store for name in names)  # where each appears when it is whole
    except UserError:
        whole = False
    if not whole:
        sources = [
            SourceDocument(name, SourceKind.PDF, (document,), f"{name}.pdf")
            for document, name in zip(documents, names, strict=True)
        ]
        report = ingest(sources, workspace.store, settings=settings, progress=sys.stderr.isatty())
        if report.failed:
            reasons = "; ".join(f"{each.name}: {each.reason}" for each in report.failed)
            raise UserError(f"not a document that can be read: {reasons}")
    return workspace


def build_indexes(workspace: Workspace, config: DocAgentConfig) -> None:
    """Build the indexes of a configuration's retrievers; those that are there and current stay.

    Raises:
        UserError: the model of an index is not on this machine, or no page has text.
    """
    from docagent_rl.retrieval.bm25 import BM25Settings
    from docagent_rl.retrieval.indexes import build_bm25, build_vectors

    store = DocumentStore(workspace.store)
    for section, whole in config.retrievers().items():
        for _, each in whole.flat(section):
            if each.backend is Backend.LOCAL and each.index is not None:
                if each.model is None:
                    build_bm25(store, each.index, BM25Settings(), force=True)
                else:
                    build_vectors(store, each.index, each.model)


def _name(document: Path) -> str:
    """Return a file's name as the name of a document: letters, digits, dots and dashes alone."""
    kept = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in document.stem)
    return kept.strip("._")[:_NAME] or "document"


def own_question(workspace: Workspace, question: str) -> Sample:
    """Return the sample of a question about a workspace's documents."""
    asked = question.strip()
    doc_id = workspace.doc_ids[0]
    pages = DocumentStore(workspace.store).document(doc_id).num_pages
    key = "\0".join([*workspace.doc_ids, asked])
    return Sample(
        question_id=hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16],
        dataset=DATASET,
        split=Split.TEST,
        doc_id=doc_id,
        question=asked,
        answers=(NOT_KNOWN,),
        extra={"gold": None, "num_pages": pages, "native_id": None, "row": 0},
    )


def set_for_asking(run: DictConfig, workspace: Workspace) -> None:
    """Change a recipe's configuration to a workspace's documents: no gold pages, judge or reward function.

    Raises:
        UserError: there are several documents, and the system plays one at a time.
    """
    with open_dict(run):
        run.docagent.workspace = str(workspace.folder)
        run.docagent.store = str(workspace.store)
        run.docagent.judge = OmegaConf.create({"kind": "exact"})
        run.docagent.reward_function = OmegaConf.create({})  # the answer is not known
        run.docagent.provision = None
        parsed = DocAgentConfig.parse(plain(run.docagent))
        system = get_system(parsed.system)
        changes: dict = {}
        if "allow_empty_gold" in system.config_type.model_fields:
            changes["allow_empty_gold"] = True
        if len(workspace.doc_ids) > 1:
            scope = getattr(getattr(system.parse_config(parsed.env), "search", None), "scope", None)
            if scope is None:
                count = len(workspace.doc_ids)
                raise UserError(
                    f"{system.name} plays one document at a time, and {count} are named: ask "
                    "about one, or take a recipe that searches several, e.g. --recipe vrag_rl_qwen2_5_vl_7b"
                )
            changes["search"] = {"scope": SearchScope.CORPUS.value}
        for section in ("env", "env_cpu"):
            given = run.docagent.get(section) or {}
            run.docagent[section] = OmegaConf.merge(given, OmegaConf.create(changes))

"""The user's own documents, ingested and indexed once, and questions about them."""

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.objects import file_digest
from docagent_rl.documents.sources import FailedDocument, SourceDocument, SourceKind, discover
from docagent_rl.documents.store import DocumentStore, gather
from docagent_rl.documents.upkeep import prune
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.envs.views import SearchScope
from docagent_rl.retrieval.config import Backend
from docagent_rl.retrieval.index_files import index_kind
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.systems import get_system

_VERSION = 2
_NAME = 48
DATASET = "ask"
NOT_KNOWN = "(the answer is not known)"
"""The reference answer, since environments score against one; agents never see it."""


def cache_folder() -> Path:
    """Return the folder for documents that are asked about: in the workspace, otherwise in the
    user's cache folder.
    """
    if workspace := os.environ.get("DOCAGENT_WORKSPACE"):
        return Path(workspace) / "ask"
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "docagent-rl" / "ask"


@dataclass(frozen=True, slots=True)
class Workspace:
    """Documents to ask about, and a folder for their indexes."""

    folder: Path
    store: Path
    doc_ids: tuple[str, ...]
    """The documents, in the order in which they were named, or in that of the store."""
    failed: tuple[FailedDocument, ...] = ()
    """Documents that ingesting a folder just found, but could not read."""


def prepare(
    documents: Sequence[Path], root: Path, settings: RenderSettings | None = None
) -> Workspace:
    """Ingest PDFs into `root`, unless they are there already; any copy of a file counts as the
    same.

    Each PDF is read only once, even if it is asked about together with different others.

    Raises:
        UserError: a file is missing, named twice, or cannot be read as a document, or the folder
            cannot be written.
    """
    settings = settings or RenderSettings()
    digests = []
    for document in documents:
        if not document.is_file():
            raise UserError(f"{document}: no such file; name an existing PDF")
        digests.append(file_digest(document))
    if len(set(digests)) < len(digests):
        raise UserError("the same document is named twice: name it once")
    folder = root / _key(digests, [each.name for each in documents], settings)
    names = [_name(each) for each in documents]
    if len({name.casefold() for name in names}) < len(names):
        names = [f"{name}-{digest[:8]}" for name, digest in zip(names, digests, strict=True)]
    workspace = Workspace(folder, folder / "store", tuple(names))
    if not _holds(workspace.store, names):
        pages = root / f"pages-{_key(settings)}"
        new = [
            SourceDocument(digest, SourceKind.PDF, (document,), document.name)
            for document, digest in zip(documents, digests, strict=True)
            if not _holds(pages, [digest])
        ]
        if new:
            report = ingest(new, pages, settings=settings, progress=sys.stderr.isatty())
            if report.failed:
                reasons = "; ".join(f"{each.name}: {each.reason}" for each in report.failed)
                raise UserError(f"cannot be read as a document: {reasons}")
        gather(DocumentStore(pages), workspace.store, dict(zip(digests, names, strict=True)))
    return workspace


def mirror_folder(folder: Path, root: Path, settings: RenderSettings | None = None) -> Workspace:
    """Ingest a folder into a store in `root`, or bring the existing store up to date.

    Only new and changed files are read, and none if no size or modification time has changed since
    the last time. Nothing is written into the folder itself.

    Raises:
        UserError: the folder contains no documents or only unreadable ones, or `root` cannot be
            written.
    """
    settings = settings or RenderSettings()
    place = root / _key(os.path.realpath(folder), settings)
    store = place / "store"
    mark = place / "listing"
    listing = _listing(folder)
    failed: tuple[FailedDocument, ...] = ()
    if not (mark.is_file() and mark.read_text(encoding="utf-8") == listing and _holds(store, ())):
        bars = sys.stderr.isatty()
        # `however_many`: even if most files are gone, the lost pages can be made again from the
        # originals
        report = ingest(
            folder, store, settings=settings, progress=bars, mirror=True, however_many=True
        )
        if report.removed or report.replaced:
            prune(store)
        atomic_write(mark, listing)
        failed = tuple(report.failed)
    return Workspace(place, store, _all_of(store), failed)


def open_workspace(store: Path, root: Path) -> Workspace:
    """Return a workspace for an existing document store, with a folder in `root` for its indexes.

    Raises:
        UserError: the folder is not a store, or the store is empty.
    """
    DocumentStore(store)
    return Workspace(root / _key(os.path.realpath(store)), store.absolute(), _all_of(store))


def _all_of(store: Path) -> tuple[str, ...]:
    doc_ids = tuple(DocumentStore(store).doc_ids())
    if not doc_ids:
        raise UserError(f"{store} contains no documents to ask about: ingest some first")
    return doc_ids


def _holds(store: Path, doc_ids: Sequence[str]) -> bool:
    """Return whether a store exists and has all these documents; it lists only complete ones."""
    try:
        found = DocumentStore(store)
    except UserError:
        return False
    return all(doc_id in found for doc_id in doc_ids)


def _key(*values: object) -> str:
    text = json.dumps([_VERSION, *map(repr, values)])
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:20]


def _listing(folder: Path) -> str:
    """Return a digest of a folder's files: their names, sizes and modification times."""
    found = discover(folder)
    digest = hashlib.sha256()
    for document in found.documents:
        stamps = [
            (path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in document.files
        ]
        digest.update(repr((document.doc_id, stamps)).encode("utf-8", "replace"))
    digest.update(
        repr(sorted((each.name, each.reason) for each in found.failed)).encode("utf-8", "replace")
    )
    return digest.hexdigest()


def build_indexes(workspace: Workspace, config: DocAgentConfig) -> None:
    """Build the indexes of a configuration's retrievers that are in the workspace and not up to
    date.

    Raises:
        UserError: the model of an index is not on this machine, or no page has text.
    """
    from docagent_rl.retrieval.bm25 import BM25Settings, open_bm25
    from docagent_rl.retrieval.indexes import build_bm25, build_vectors
    from docagent_rl.retrieval.vectors.retriever import open_pages

    store = DocumentStore(workspace.store)
    for section, whole in config.retrievers().items():
        for key, each in whole.flat(section):
            if each.backend is not Backend.LOCAL or each.index is None:
                continue
            if not each.index.is_relative_to(workspace.folder):
                continue  # an index of the user's own
            try:
                if each.model is None:
                    open_bm25(each, store, key)
                else:
                    open_pages(each, store, key, late=True)
            except UserError:  # missing, of another kind, or built from other pages
                if each.model is None:
                    build_bm25(store, each.index, BM25Settings(), force=True)
                else:
                    build_vectors(store, each.index, each.model, force=True)


def _name(document: Path) -> str:
    """Return a document name made from a file's name: only letters, digits, `.`, `_` and `-`."""
    kept = "".join(
        letter if letter.isalnum() or letter in "._-" else "_" for letter in document.stem
    )
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


def search_at(run: DictConfig, *, index: Path | None = None, url: str | None = None) -> None:
    """Have a configuration search in an existing index, or at a server (`docagent-rl index serve`).

    Raises:
        UserError: the folder is not an index.
    """
    with open_dict(run):
        section = run.docagent.retriever
        if index is not None:
            if not (kind := index_kind(index)):
                raise UserError(
                    f"--index {index} is not an index; `docagent-rl index build` makes one"
                )
            section.kind = kind
            section.model = None
            section.index = str(index.absolute())
        if url is not None:
            section.backend = Backend.HTTP.value
            section.service = OmegaConf.merge(section.get("service") or {}, {"url": url})


def give_roles(run: DictConfig, model: ModelConfig, overrides: Sequence[str] = ()) -> list[str]:
    """Have the model that plays also play the system's roles for which no endpoint is set.

    The configuration is changed in place. A model that runs in this process plays no roles, and a
    model that an override names for a role stays.

    Returns:
        The names of the roles that it plays.
    """
    if not model.base_url:
        return []
    roles = run.docagent.get("roles") or {}
    found = []
    for name in get_system(run.docagent.system).roles:
        section = dict(roles.get(name.value) or {})
        if section.get("backend") is not None or section.get("base_url") is not None:
            continue
        key = f"docagent.roles.{name.value}.model="
        if not any(each.lstrip("+").startswith(key) for each in overrides):
            section |= {"model": model.model, "price": model.price.model_dump()}
        section |= {"base_url": model.base_url, "api_key_env": model.api_key_env}
        with open_dict(run):
            OmegaConf.update(run, f"docagent.roles.{name.value}", section, force_add=True)
        found.append(name.value)
    return found


def configure_for_asking(run: DictConfig, workspace: Workspace) -> None:
    """Change a recipe's configuration to a workspace's documents, without gold pages, judge or
    reward function.

    Raises:
        UserError: there are several documents, but the system plays one at a time.
    """
    with open_dict(run):
        run.docagent.workspace = str(workspace.folder)
        run.docagent.store = str(workspace.store)
        run.docagent.judge = OmegaConf.create({"kind": "exact"})
        run.docagent.reward_function = OmegaConf.create({})  # no reference answer to score with
        run.docagent.provision = None
        parsed = DocAgentConfig.parse(plain_section(run.docagent))
        system = get_system(parsed.system)
        changes: dict = {}
        if "allow_empty_gold" in system.config_type.model_fields:
            changes["allow_empty_gold"] = True
        if len(workspace.doc_ids) > 1:
            scope = getattr(getattr(system.parse_config(parsed.env), "search", None), "scope", None)
            if scope is None:
                count = len(workspace.doc_ids)
                raise UserError(
                    f"{system.name} reads one document at a time, but {count} are given: ask about "
                    "one, or use a recipe that searches several, e.g. --recipe "
                    "vrag_rl_qwen2_5_vl_7b"
                )
            changes["search"] = {"scope": SearchScope.CORPUS.value}
        for section in ("env", "env_cpu"):
            given = run.docagent.get(section) or {}
            run.docagent[section] = OmegaConf.merge(given, OmegaConf.create(changes))

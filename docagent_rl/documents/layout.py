"""The files of a document store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import writable
from docagent_rl.base.seals import SEAL, Seal, read_seal
from docagent_rl.base.text import composed
from docagent_rl.documents.manifest import Manifest, dump_record, read_record
from docagent_rl.documents.objects import ObjectStore, read_bytes, write

MARKER = "docagent_store.json"
_LOCK = ".docagent_store.lock"
_FORMAT = {"format": "docagent-rl document store", "version": 1}


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """The paths of a store.

    ```
    docagent_store.json           marks the folder as a store
    seal.jsonl                    lists the manifests, so that a lost one is noticed
    .docagent_store.lock          locked by the process that writes to the store
    objects/<2 hex>/<sha256>.*    page rasters (.jpg), page texts (.txt.gz)
    documents/<sha256>.json       one manifest per document, named by the hash of its id
    partial/<sha256>/<page>.json  finished page ranges of unfinished documents
    ```
    Ids are hashed and never become a part of a path.
    """

    root: Path

    @property
    def objects(self) -> ObjectStore:
        """The rasters and texts."""
        return ObjectStore(self.root / "objects")

    @property
    def seal(self) -> Seal:
        """The list of the documents (`docagent_rl.base.seals`)."""
        return Seal(self.root)

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest of a document: from then on, the document is in the store.

        Raises:
            UserError: it cannot be written.
        """
        path = self.manifest(manifest.doc_id)
        with self.seal.writing(path, about=manifest.doc_id):
            write(path, dump_record(manifest))

    def remove_manifests(self, doc_ids: Iterable[str]) -> None:
        """Remove documents from the store and from its seal; the caller must hold the lock.

        A kill on the way does not damage the store, and the same call then finishes the work. The
        seal's last line is written last.

        Raises:
            UserError: the store cannot be written.
        """
        paths = [self.manifest(doc_id) for doc_id in doc_ids]
        with writable(self.root), self.seal.writing(*paths):
            for path in paths:
                path.unlink(missing_ok=True)

    def has_held(self, doc_id: str) -> bool:
        """Return whether the seal lists a document, lost or not."""
        sealed = read_seal(self.root)
        return self.manifest(doc_id).relative_to(self.root).as_posix() in {
            *sealed.records,
            *sealed.begun,
        }

    def seal_rest(self) -> None:
        """Add unlisted manifests to the seal and compact it; the caller must hold the lock."""
        known = read_seal(self.root)
        found = {}
        if known.broken:
            return  # keep the evidence until somebody deletes it
        for path in self.manifests():
            name = path.relative_to(self.root).as_posix()
            if name not in known.records or name in known.begun:
                with suppress(UserError):  # `check` reports a damaged one
                    found[path] = self.read_manifest(path).doc_id
        self.seal.adopt(found)
        self.seal.compact()

    def manifest(self, doc_id: str) -> Path:
        """Return the path of a document's manifest, whether it exists or not."""
        return self.root / "documents" / f"{_digest(doc_id)}.json"

    def manifests(self) -> Iterator[Path]:
        """Yield the paths of all manifests; files being written start with a dot."""
        yield from (self.root / "documents").glob("[!.]*.json")

    def sound_manifests(self) -> Iterator[Manifest]:
        """Yield the manifests of all documents, without damaged ones."""
        for path in self.manifests():
            with suppress(UserError, FileNotFoundError):
                yield self.read_manifest(path)

    def read_manifest(self, path: Path) -> Manifest:
        """Read a manifest from one of the paths in `manifests`.

        Raises:
            FileNotFoundError: It does not exist.
            UserError: It is damaged or belongs to another document.
        """
        manifest = read_record(Manifest, path)
        if _digest(manifest.doc_id) != path.stem:
            raise UserError(
                f"{path}: damaged (it belongs to another document, {manifest.doc_id!r}); "
                "delete it and ingest the document again"
            )
        return manifest

    def partial(self, doc_id: str, source_sha256: str, settings_key: str) -> Path:
        """Return the folder for the page ranges of one version of a document."""
        return self.root / "partial" / _digest("\0".join((doc_id, source_sha256, settings_key)))

    def require(self) -> StoreLayout:
        """Return this layout after checking that the folder is a store of this version.

        Raises:
            UserError: It is not.
        """
        marker = self.root / MARKER
        if not marker.is_file():
            raise UserError(
                f"{self.root} is not a document store (no {MARKER}): "
                f"create one with `docagent-rl ingest FOLDER --store {self.root}`"
            )
        try:
            found = json.loads(read_bytes(marker))
        except ValueError as error:
            raise UserError(f"{marker}: not JSON ({error})") from error
        if found != _FORMAT:
            raise UserError(
                f"{marker}: a store of another version ({found}); ingest the documents again"
            )
        return self

    def create(self) -> StoreLayout:
        """Make the folder a store, unless it is one already.

        Raises:
            UserError: The folder contains something else, or it cannot be written.
        """
        marker = self.root / MARKER
        try:
            if self.root.exists() and not self.root.is_dir():
                raise UserError(f"the store {self.root} is a file: name a folder")
            if marker.exists():
                return self.require()
            # another process may be making the same store, or have been killed doing so
            ours = (_LOCK, f".{MARKER}.", SEAL)
            if self.root.is_dir() and not all(
                path.name.startswith(ours) or path == marker for path in self.root.iterdir()
            ):
                raise UserError(
                    f"the folder {self.root} is not empty and not a document store: name a new "
                    "folder"
                )
            try:
                with self.seal.writing(marker):
                    write(marker, json.dumps(_FORMAT) + "\n")
            except UserError:
                # a process that made the store meanwhile may have removed our half-written marker
                if not marker.exists():
                    raise
            return self.require()
        except OSError as error:
            raise UserError(
                f"the store {self.root} cannot be used ({error.strerror or error})"
            ) from error

    @contextmanager
    def lock(self, waiting: Callable[[], None] = lambda: None) -> Generator[None]:
        """Hold the lock that lets one process write; it is released even if the process is killed.

        `waiting` is called once if another process has the lock, before waiting for it.
        """
        from filelock import FileLock, Timeout  # not needed by readers

        lock = FileLock(self.root / _LOCK)
        # a process that cannot write the lock file either only reads, or fails with a clear error
        # at the first file that it writes
        with suppress(OSError):
            try:
                lock.acquire(blocking=False)
            except Timeout:
                waiting()
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def remove_leftovers(self) -> None:
        """Remove partial files that killed processes left; the caller must hold the lock."""
        for folder in (".", "documents", "objects/*", "partial/*"):
            for path in self.root.glob(f"{folder}/.*.tmp"):
                with suppress(OSError):
                    path.unlink()


def _digest(doc_id: str) -> str:
    return hashlib.sha256(composed(doc_id).encode("utf-8", errors="surrogatepass")).hexdigest()

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
    seal.jsonl                    the manifests that there are, so that a lost one is missed
    .docagent_store.lock          held by the process that writes to it
    objects/<2 hex>/<sha256>.*    page rasters (.jpg), page texts (.txt.gz)
    documents/<sha256>.json       one manifest a document, named by the hash of its id
    partial/<sha256>/<page>.json  finished page ranges of documents not finished yet
    ```
    Ids are hashed, never joined into a path.
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
        """Write the manifest of a document: from here on the store holds it.

        Raises:
            UserError: it cannot be written.
        """
        path = self.manifest(manifest.doc_id)
        with self.seal.writing(path, about=manifest.doc_id):
            write(path, dump_record(manifest))

    def remove_manifests(self, doc_ids: Iterable[str]) -> None:
        """Take documents out, and let the seal forget them; for the holder of the lock.

        A kill on the way leaves a store without damage, and the same call goes on. The seal's last
        line is the last that is written.

        Raises:
            UserError: the store cannot be written.
        """
        paths = [self.manifest(doc_id) for doc_id in doc_ids]
        with writable(self.root), self.seal.writing(*paths):
            for path in paths:
                path.unlink(missing_ok=True)

    def has_held(self, doc_id: str) -> bool:
        """Return whether the seal knows a document, there or not."""
        sealed = read_seal(self.root)
        return self.manifest(doc_id).relative_to(self.root).as_posix() in {
            *sealed.records,
            *sealed.begun,
        }

    def seal_rest(self) -> None:
        """Seal manifests that the seal does not know, and write it anew; for the holder of the
        lock.
        """
        known = read_seal(self.root)
        found = {}
        if known.broken:
            return  # the evidence stays, until somebody deletes it
        for path in self.manifests():
            name = path.relative_to(self.root).as_posix()
            if name not in known.records or name in known.begun:
                with suppress(UserError):  # `check` names a damaged one
                    found[path] = self.read_manifest(path).doc_id
        self.seal.adopt(found)
        self.seal.compact()

    def manifest(self, doc_id: str) -> Path:
        """Return the path of a document's manifest, there or not."""
        return self.root / "documents" / f"{_digest(doc_id)}.json"

    def manifests(self) -> Iterator[Path]:
        """Yield the manifests that are there; files being written start with a dot."""
        yield from (self.root / "documents").glob("[!.]*.json")

    def sound_manifests(self) -> Iterator[Manifest]:
        """Yield the records of all documents, damaged ones apart."""
        for path in self.manifests():
            with suppress(UserError, FileNotFoundError):
                yield self.read_manifest(path)

    def read_manifest(self, path: Path) -> Manifest:
        """Read one of `manifests`.

        Raises:
            FileNotFoundError: It is not there.
            UserError: It is damaged, or that of another document.
        """
        manifest = read_record(Manifest, path)
        if _digest(manifest.doc_id) != path.stem:
            raise UserError(
                f"{path}: damaged (it is that of another document, {manifest.doc_id!r}); "
                "delete it and ingest the document again"
            )
        return manifest

    def partial(self, doc_id: str, source_sha256: str, settings_key: str) -> Path:
        """Return the folder of the page ranges of one version of a document."""
        return self.root / "partial" / _digest("\0".join((doc_id, source_sha256, settings_key)))

    def require(self) -> StoreLayout:
        """Check that this is a store, and of this version; else raise a `UserError`."""
        marker = self.root / MARKER
        if not marker.is_file():
            raise UserError(
                f"{self.root} is not a document store (no {MARKER}): "
                f"make one with `docagent-rl ingest FOLDER --store {self.root}`"
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
        """Make the folder a store, unless it is one; one that holds something else raises a
        `UserError`.
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
                # a process that made the store meanwhile may have cleaned up our half of the marker
                if not marker.exists():
                    raise
            return self.require()
        except OSError as error:
            raise UserError(
                f"the store {self.root} cannot be used ({error.strerror or error})"
            ) from error

    @contextmanager
    def lock(self, waiting: Callable[[], None] = lambda: None) -> Generator[None]:
        """Be the one process that writes to the store; ends with the process, also when it is
        killed.

        `waiting` is called once when another process has the store, before waiting for it to end.
        """
        from filelock import FileLock, Timeout  # not by readers

        lock = FileLock(self.root / _LOCK)
        # who cannot write the lock reads only, or is told so by the first file that is to be
        # written
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
        """Remove the parts of files that killed processes left; for the holder of the lock."""
        for folder in (".", "documents", "objects/*", "partial/*"):
            for path in self.root.glob(f"{folder}/.*.tmp"):
                with suppress(OSError):
                    path.unlink()


def _digest(doc_id: str) -> str:
    return hashlib.sha256(composed(doc_id).encode("utf-8", errors="surrogatepass")).hexdigest()

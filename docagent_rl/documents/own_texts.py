"""Texts of pages that the user brings, such as Doc2X's, in place of those that were read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import encodable
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import (
    Finding,
    Manifest,
    PageEntry,
    TextReading,
    TextReason,
    TextSource,
)
from docagent_rl.documents.objects import ObjectStore

_OWN = TextReading(TextSource.OWN, TextReason.OWN)
_OF_THE_FORMER_TEXT = frozenset({Finding.DOUBTFUL_OCR, Finding.WRONG_MAP})
_SUFFIXES = (".md", ".txt")
_NUMBER = re.compile(r"(\d{1,6})\D*")
_PAGE_BREAK = "\f"
_WAITING = "An ingest is writing to this store: waiting for it to end ..."


@dataclass(frozen=True, slots=True)
class ReplacedTexts:
    """The result of replacing texts."""

    documents: int
    """Number of documents for which there were texts."""
    pages: int
    """Number of pages for which there were texts."""
    changed: int
    """Number of documents whose texts were not the same already."""
    without: tuple[str, ...]
    """Ids of the documents without texts, which keep theirs."""


def own_texts(folder: Path, doc_id: str, num_pages: int) -> dict[int, str]:
    """Return a document's texts by page number, from 1; empty if the folder has none.

    The first of these is read:

    - `<doc_id>.json`: a reply of Doc2X, with `page_idx` (from 0) and `md` of each page;
    - `<doc_id>/`: one `.md` or `.txt` file per page, whose name ends with the page's number;
    - `<doc_id>.md` or `<doc_id>.txt`: all pages, with a form feed between two of them.

    Raises:
        UserError: A file cannot be read, or has other pages than the document.
    """
    reply = folder / f"{doc_id}.json"
    pages = folder / doc_id
    if reply.is_file():
        texts, where = _of_reply(reply), reply
    elif pages.is_dir():
        texts, where = _of_files(pages), pages
    else:
        names = (folder / f"{doc_id}{suffix}" for suffix in _SUFFIXES)
        where = next((path for path in names if path.is_file()), None)
        if where is None:
            return {}
        parts = [_tidy(part) for part in _read(where).split(_PAGE_BREAK)]
        if len(parts) != num_pages:
            raise UserError(
                f"{where}: {len(parts)} pages, separated by form feeds, but {doc_id!r} has "
                f"{num_pages}: give one file per page in {pages}/ instead"
            )
        texts = dict(enumerate(parts, start=1))
    if wrong := sorted(number for number in texts if not 1 <= number <= num_pages):
        raise UserError(f"{where}: page {wrong[0]}, but {doc_id!r} has the pages 1 to {num_pages}")
    return texts


def replace_texts(store: Path, folder: Path, doc_ids: Iterable[str]) -> ReplacedTexts:
    """Replace the texts of documents by those of a folder (`own_texts`).

    All files are read before the store is changed. A page without a text in the folder keeps its
    own, and a blank text empties the page.

    Raises:
        UserError: The folder has no text for any document, or one of its files is wrong.
    """
    layout = StoreLayout(store).require()
    with layout.lock(partial(Console(stderr=True).print, _WAITING)):
        manifests = [layout.read_manifest(layout.manifest(doc_id)) for doc_id in doc_ids]
        found = {each.doc_id: own_texts(folder, each.doc_id, len(each.pages)) for each in manifests}
        if not any(found.values()):
            raise UserError(
                f"{folder} has no text for any of the {len(manifests)} documents of {store}: name "
                "its files by the documents' ids (`docagent-rl store list`)"
            )
        changed = 0
        for old in manifests:
            new = _with_texts(old, found[old.doc_id], layout.objects)
            if new != old:
                layout.write_manifest(new)
                changed += 1
        layout.seal_rest()
    return ReplacedTexts(
        documents=sum(map(bool, found.values())),
        pages=sum(map(len, found.values())),
        changed=changed,
        without=tuple(doc_id for doc_id, texts in found.items() if not texts),
    )


def _with_texts(manifest: Manifest, texts: Mapping[int, str], objects: ObjectStore) -> Manifest:
    pages = list(manifest.pages)
    for number, text in texts.items():
        pages[number - 1] = _with_text(pages[number - 1], text, objects)
    return replace(manifest, pages=tuple(pages))


def _with_text(page: PageEntry, text: str, objects: ObjectStore) -> PageEntry:
    findings = tuple(each for each in page.findings if each not in _OF_THE_FORMER_TEXT)
    digest = objects.put(text) if text else None
    return replace(page, text=digest, reading=_OWN, findings=findings)


def _of_files(folder: Path) -> dict[int, str]:
    """Return the texts of files by the last number of their names."""
    texts: dict[int, str] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix not in _SUFFIXES:
            continue
        numbers = _NUMBER.findall(path.stem)
        if not numbers:
            raise UserError(f"{path}: the name of a page's text has to end with the page's number")
        number = int(numbers[-1])
        if number in texts:
            raise UserError(f"{path}: another file of {folder} is of page {number} too")
        texts[number] = _read(path)
    return texts


def _of_reply(path: Path) -> dict[int, str]:
    """Return the texts of a reply of Doc2X, whole or only its `result`."""
    try:
        found = json.loads(_read(path))
    # deeply nested brackets overflow the parser's stack
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error})") from error
    for key in ("data", "result", "pages"):
        found = found.get(key, found) if isinstance(found, dict) else found
    texts: dict[int, str] = {}
    for page in found if isinstance(found, list) else [None]:
        match page:
            case {"page_idx": int(index), "md": str(text)}:
                texts[index + 1] = _tidy(text)
            case _:
                raise UserError(
                    f"{path}: no reply of Doc2X, which has a list `pages` of objects with "
                    "`page_idx` and `md`"
                )
    return texts


def _read(path: Path) -> str:
    try:
        return _tidy(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as UTF-8 text ({error})") from error


def _tidy(text: str) -> str:
    return encodable(text.replace("\r\n", "\n")).strip(" \n\t")

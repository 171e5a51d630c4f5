"""Any damage to any file of a store: what is read is right or refused, `check` sees it, `ingest` heals it."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from random import Random

import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.audit import audit_store
from tests.documents.here import ingest_here
from tests.faults.mutate import Damage, damage

pytestmark = pytest.mark.slow
PAGES = {"animals": 4, "b.plants": 3, "scans": 2}
VALUE = re.compile(rb'":\s*("[^"]*"|[0-9.]+|null|true|false)')
VALUES = (b"null", b"-1", b'""', b"1e999", b'"\\ud800"', b"[]", b"{}", b"0", b"true", b'"' + b"0" * 64 + b'"')
KINDS = ("missing", "swapped", "a folder", "a link", "extra", "edited", *Damage)


def make(inbox, word):
    for doc_id, pages in list(PAGES.items())[:2]:
        canvas = Canvas(str(inbox / f"{doc_id}.pdf"), pagesize=(200, 100), invariant=True)
        for number in range(1, pages + 1):
            canvas.bookmarkPage(str(number))
            canvas.addOutlineEntry(f"{word} part {number}", str(number), 0)
            canvas.drawString(5, 50, f"page {number} of {doc_id} {word}")
            canvas.showPage()
        canvas.save()
    (inbox / "scans").mkdir()
    for number, colour in enumerate(("red", "blue"), start=1):
        Image.new("RGB", (60, 40), colour).save(inbox / "scans" / f"{number}.png")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Documents and their store, and what can be read of each."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "inbox").mkdir()
    make(folder / "inbox", "first")
    assert not ingest_here(folder / "inbox", folder / "store").failed
    return folder, shown(folder / "store")


def shown(path):
    """What a store shows of each document; None: it is refused, by a message that names the store."""
    found = dict.fromkeys(PAGES)
    for doc_id, count in PAGES.items():
        try:
            document = DocumentStore(path).document(doc_id)
            pages = [document.page(number) for number in range(1, count + 1)]
            content = [(page.size, page.image().tobytes(), page.text()) for page in pages]
            found[doc_id] = [document.outline, *content]
        except (UserError, InfrastructureError) as error:
            if str(path) not in str(error):
                raise
    return found


def spoil(path, other, kind, random):
    """Damage a file; `other` is one of the same kind."""
    data = path.read_bytes()
    if kind in ("missing", "a folder", "a link"):
        path.unlink()
    match kind:
        case Damage():
            path.write_bytes(damage(data, kind, random) if data else b"x")
        case "swapped":
            path.write_bytes(other.read_bytes())
            other.write_bytes(data)
        case "a folder":
            path.mkdir()
        case "a link":
            path.symlink_to("nowhere")
        case "extra":
            path.with_name(f"0{path.name}").write_bytes(random.choice((b"", b"x", data)))
        case "edited":
            value = random.choice(list(VALUE.finditer(data)))
            path.write_bytes(data[: value.start(1)] + random.choice(VALUES) + data[value.end(1) :])


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_refused_and_seen_and_healed(made, tmp_path, kind):
    folder, whole = made
    files = [path for path in sorted((folder / "store").rglob("[!.]*")) if path.is_file()]
    suffixes = {".json"} if kind == "edited" else {path.suffix for path in files}
    for number, suffix in enumerate(sorted(suffixes) * 2):
        random, store = Random(f"{kind}/{number}"), tmp_path / str(number)
        shutil.copytree(folder / "store", store)
        alike = [store / path.relative_to(folder / "store") for path in files if path.suffix == suffix]
        path = random.choice(alike)
        spoil(path, random.choice(alike), kind, random)
        found = shown(store)
        assert all(found[doc_id] in (None, whole[doc_id]) for doc_id in PAGES), path
        if None in found.values():
            with suppress(UserError):
                audit = audit_store(store)
                assert audit.damages or "of no document" in audit.contents, path
        with suppress(UserError):
            assert not ingest_here(folder / "inbox", store).failed
            assert shown(store) == whole
            assert not list(store.rglob("*.tmp"))

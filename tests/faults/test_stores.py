"""After any damage to any file of a store, what is read is right or refused, `check` reports the
damage, and `ingest` repairs it.
"""

import re
import shutil
from contextlib import suppress

import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from tests.faults.conftest import chance
from tests.faults.mutate import Damage, damage

pytestmark = pytest.mark.slow
SETTINGS = RenderSettings(dpi=20)
PAGES = {"animals": 4, "b.plants": 3, "scans": 2}
VALUE = re.compile(rb'":\s*("[^"]*"|[0-9.]+|null|true|false)')
VALUES = (
    b"null",
    b"-1",
    b'""',
    b"1e999",
    b'"\\ud800"',
    b"[]",
    b"{}",
    b"0",
    b"true",
    b'"' + b"0" * 64 + b'"',
)
KINDS = (
    "missing",
    "swapped",
    "of another store",
    "a folder",
    "a link",
    "extra",
    "edited",
    *list(Damage)[1:],
)
CASES = len(KINDS)


def make(folder, word):
    """Write documents, and make a store of them."""
    inbox = folder / "inbox"
    (inbox / "scans").mkdir(parents=True)
    for doc_id, pages in list(PAGES.items())[:2]:
        canvas = Canvas(str(inbox / f"{doc_id}.pdf"), pagesize=(200, 100), invariant=True)
        for number in range(1, pages + 1):
            canvas.bookmarkPage(str(number))
            canvas.addOutlineEntry(f"{word} part {number}", str(number), 0)
            canvas.drawString(5, 50, f"page {number} of {doc_id} {word}")
            canvas.showPage()
        canvas.save()
    for number, colour in enumerate(("red", "blue"), start=1):
        Image.new("RGB", (60, 40 + len(word)), colour).save(inbox / "scans" / f"{number}.png")
    assert not ingest(inbox, folder / "store", settings=SETTINGS, workers=1).failed
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return documents and their store, another store, and what can be read of each document."""
    one, other = (make(tmp_path_factory.mktemp(word), word) for word in ("first", "second"))
    return one, other, shown(one / "store")


def shown(path):
    """Return what a store shows of each document; None if it is refused with a message that names
    the store.
    """
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


def spoil(path, other, elsewhere, kind, dice):
    """Damage a file; `other` is a file of the same kind, `elsewhere` one of another store."""
    data = path.read_bytes()
    if kind in ("missing", "a folder", "a link"):
        path.unlink()
    match kind:
        case Damage():
            path.write_bytes(damage(data, kind, dice))
        case "swapped":
            path.write_bytes(other.read_bytes())
            other.write_bytes(data)
        case "of another store":
            shutil.copy(elsewhere, path)
        case "a folder":
            path.mkdir()
        case "a link":
            path.symlink_to("nowhere")
        case "extra":
            path.with_name(f"0{path.name}").write_bytes(dice.choice((b"", b"x", data)))
        case "edited":
            value = dice.choice(list(VALUE.finditer(data)))
            path.write_bytes(data[: value.start(1)] + dice.choice(VALUES) + data[value.end(1) :])


def named(store):
    """Return what `check` reports of a store that it recognises as one."""
    try:
        audit = audit_store(store)
    except UserError as error:  # of the marker
        return str(error)
    return "\n".join([*(f"{each.path}: {each.problem}" for each in audit.damages), *audit.unsealed])


def files(store):
    """Return files of a store, equally many of each kind."""
    found: dict[str, list] = {}
    for path in sorted(store.rglob("[!.]*")):
        if path.is_file():
            kind = path.parent.name if path.suffix == ".json" else path.suffix
            found.setdefault(kind, []).append(path)
    return found


def test_damage_is_refused_and_seen_and_healed(made, tmp_path, number):
    one, another, whole = made
    kind, dice = KINDS[number % len(KINDS)], chance(__name__, number)
    for attempt, alike in enumerate(files(one / "store").values()):
        store = tmp_path / str(attempt)
        shutil.copytree(one / "store", store)
        path, other = (store / dice.choice(alike).relative_to(one / "store") for _ in range(2))
        before = path.read_bytes()
        if kind == "edited" and not VALUE.search(before):
            continue
        relative = dice.choice(files(another / "store")[list(files(one / "store"))[attempt]])
        spoil(path, other, relative, kind, dice)
        found = shown(store)
        assert all(found[doc_id] in (None, whole[doc_id]) for doc_id in PAGES), path
        told = named(store)
        listed = path.parent == store or path.parent.name == "documents"
        changed = not path.is_file() or path.read_bytes() != before
        assert str(store) in told or (found == whole and not (listed and changed)), path
        if path.parent == store:
            continue  # whoever lost the marker or the list has to say what the folder is
        with suppress(UserError):  # a folder is in the way
            assert not ingest(one / "inbox", store, settings=SETTINGS, workers=1).failed
            assert shown(store) == whole
        assert not list(store.rglob("*.tmp"))

"""More damage is done to stores in tests/faults."""

from __future__ import annotations

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.audit import audit_store


def test_every_file_that_is_not_as_it_was_written_is_found(
    inbox, store_path, ingested, write_pdf, write_image
):
    """Those that a page needs, those that none needs, and what an interrupted ingest left."""
    write_pdf(inbox / "report.pdf", ["alpha", "", "gamma"], outline=[("Start", 0, 1)])
    write_image(inbox / "deck" / "1.jpg", "red")
    ingested()
    DocumentStore(store_path).objects.put_text("of a document that was replaced")
    partial = store_path / "partial" / "0123abcd" / "1.json"
    partial.parent.mkdir(parents=True)
    partial.write_text("{}")
    assert [(damage.path, damage.users) for damage in audit_store(store_path).damages] == [(partial, ())]
    partial.unlink()
    files = [path for path in store_path.rglob("*") if path.suffix in (".json", ".jpg", ".gz")]
    assert (
        len(files) == 1 + 2 + 4 + 4 + 1
    )  # the marker, manifests, pictures, texts and lines, what none needs
    for path in files:
        data = path.read_bytes()
        for damaged in (data[:-3], data[:-6] + bytes([data[-6] ^ 1]) + data[-5:], b""):
            path.write_bytes(damaged)
            if path.name != "docagent_store.json":
                assert [damage.path for damage in audit_store(store_path).damages] == [path]
        path.write_bytes(data)
    assert audit_store(store_path).damages == []

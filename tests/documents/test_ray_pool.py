from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import psutil
import pytest

from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.chunks import PAGES_PER_CHUNK
from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.jobs import Ocr
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.manifest import ChunkEntry, dump_record
from docagent_rl.documents.ocr import OcrSettings, engine_key
from docagent_rl.documents.ray_pool import Places, RayPool, _units
from docagent_rl.errors import InfrastructureError, UserError
from tests.documents.scans import TEXT, draw_text, write_scan

FAST = RenderSettings(dpi=20)


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one processor each, on this machine."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
    yield cluster.address
    ray.shutdown()
    cluster.shutdown()


def _node(_):
    """The raylet of the node that works on it: the parent of the parent of the process that does."""
    time.sleep(1)
    return psutil.Process(os.getppid()).ppid()


def files(store: Path) -> dict[str, bytes]:
    return {
        path.relative_to(store).as_posix(): path.read_bytes()
        for path in store.rglob("*")
        if path.is_file() and path.name != ".docagent_store.lock"
    }


def corpus(inbox, write_pdf, write_image):
    write_pdf(inbox / "long.pdf", [f"page {n}" for n in range(3 * PAGES_PER_CHUNK + 1)])
    for name in "abcd":
        write_pdf(inbox / f"{name}.pdf", [f"{name} {n}" for n in range(3)])
    for number in (1, 2):
        write_image(inbox / "scan" / f"{number}.png", "red")
    (inbox / "broken.pdf").write_bytes(b"%PDF-1.4 nothing\n%%EOF")
    write_image(inbox / "wide" / "1.png", size=(2010, 10))
    write_image(inbox / "wide" / "2.png")


@pytest.mark.slow
def test_an_address_without_a_cluster_is_an_error_of_the_user(inbox, tmp_path, write_pdf):
    """Before the tests below have one."""
    write_pdf(inbox / "a.pdf", ["text"])
    with pytest.raises(UserError, match="no Ray cluster"):
        ingest(inbox, tmp_path / "store", settings=FAST, ray="127.0.0.1:1")
    with pytest.raises(UserError, match="names a cluster that runs"):
        ingest(inbox, tmp_path / "store", settings=FAST, ray="local")


@pytest.mark.slow
def test_the_store_is_the_same_byte_for_byte_and_so_is_the_report(
    cluster, inbox, tmp_path, write_pdf, write_image
):
    corpus(inbox, write_pdf, write_image)
    reports = [
        ingest(inbox, tmp_path / name, settings=FAST, workers=workers, ray=ray)
        for name, workers, ray in (("local", 1, None), ("one", 1, cluster), ("many", None, cluster))
    ]
    assert reports[0] == reports[1] == reports[2]
    assert [failure.name for failure in reports[0].failed] == ["broken.pdf", "wide"]
    assert reports[0].ingested == ["a", "b", "c", "d", "long", "scan"]
    stores = [files(tmp_path / name) for name in ("local", "one", "many")]
    assert stores[0] == stores[1] == stores[2]
    assert DocumentStore(tmp_path / "many").document("long").num_pages == 3 * PAGES_PER_CHUNK + 1
    again = ingest(inbox, tmp_path / "many", settings=FAST, ray=cluster)
    assert again.ingested == []
    assert again.skipped == reports[0].ingested


@pytest.mark.slow
def test_a_run_goes_on_where_another_kind_of_run_stopped(cluster, inbox, tmp_path, write_pdf):
    write_pdf(inbox / "long.pdf", [f"page {n}" for n in range(2 * PAGES_PER_CHUNK)])
    whole, part = tmp_path / "whole", tmp_path / "part"
    ingest(inbox, whole, settings=FAST, workers=1)
    ingest(inbox, part, settings=FAST, workers=1)
    layout = StoreLayout(part)
    manifest = layout.read_manifest(layout.manifest("long"))
    ocr = Ocr(OcrSettings(), engine_key(OcrSettings()))
    folder = layout.partial("long", manifest.source.sha256, f"{manifest.settings} {ocr.key()}")
    folder.mkdir(parents=True)
    entry = ChunkEntry(first=1, pages=manifest.pages[:PAGES_PER_CHUNK])
    (folder / "1.json").write_text(dump_record(entry))
    layout.manifest("long").unlink()
    report = ingest(inbox, part, settings=FAST, ray=cluster)
    assert (report.pages, report.resumed_pages) == (2 * PAGES_PER_CHUNK, PAGES_PER_CHUNK)
    assert files(part) == files(whole)


@pytest.mark.slow
def test_limits_hold_on_the_nodes(cluster, inbox, tmp_path, write_image):
    write_image(inbox / "large" / "1.png", size=(300, 300))
    write_image(inbox / "small" / "1.png", size=(20, 20))
    limits = IngestLimits(pixels=50_000)
    reports = [
        ingest(inbox, tmp_path / name, settings=FAST, limits=limits, ray=ray)
        for name, ray in (("a", None), ("b", cluster))
    ]
    assert reports[0] == reports[1]
    assert "pixels" in reports[1].failed[0].reason
    with pytest.raises(UserError, match="large"):
        ingest(inbox, tmp_path / "c", settings=FAST, limits=limits, ray=cluster, strict=True)


@pytest.mark.slow
def test_tasks_that_hang_or_crash_cost_themselves(cluster, tmp_path):
    store = tmp_path / "store"
    StoreLayout(store).create()
    with RayPool(cluster, 1, IngestLimits(seconds=0.5), Places(tmp_path, store)) as pool:
        slow, quick = sorted(pool.run(time.sleep, [0.01, 30]), key=lambda outcome: -outcome.task)
        assert isinstance(slow.error, DocumentError)
        assert "more than 0.5 s" in str(slow.error)
        assert quick.error is None
        (crashed,) = (o for o in pool.run(ctypes.string_at, [b"a", 0]) if o.error is not None)
        assert crashed.task == 0
        assert "killed" in str(crashed.error)


@pytest.mark.slow
def test_what_is_no_document_error_is_raised_here(cluster, tmp_path):
    store = tmp_path / "store"
    StoreLayout(store).create()
    with RayPool(cluster, 1, IngestLimits(), Places(tmp_path, store)) as pool:
        with pytest.raises(TypeError):
            list(pool.run(abs, [-1, "a"]))
        assert sorted(outcome.value() for outcome in pool.run(abs, [-1, 2])) == [1, 2]


@pytest.mark.slow
def test_every_node_works(cluster, tmp_path):
    StoreLayout(tmp_path / "store").create()
    places = Places(tmp_path, tmp_path / "store")
    with RayPool(cluster, None, IngestLimits(), places) as pool:
        outcomes = list(pool.run(_node, range(1, 13)))
    assert sorted(outcome.task for outcome in outcomes) == list(range(1, 13))
    assert len({outcome.value() for outcome in outcomes}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["source", "store"])
def test_a_node_that_does_not_see_a_folder_is_named(cluster, tmp_path, missing):
    (tmp_path / "source").mkdir()
    StoreLayout(tmp_path / "store").create()
    places = {"source": tmp_path / "source", "store": tmp_path / "store"} | {missing: tmp_path / "elsewhere"}
    with (
        RayPool(cluster, 1, IngestLimits(), Places(**places)) as pool,
        pytest.raises(InfrastructureError, match=r"node .* does not see"),
    ):
        list(pool.run(abs, [1]))


def test_a_document_is_a_unit_and_a_long_one_is_several():
    class Task:
        def __init__(self, doc_id):
            self.doc_id = doc_id

    tasks = [Task("a"), Task("b"), Task("b"), *(Task("c") for _ in range(17))]
    assert [[task.doc_id for task in unit] for unit in _units(tasks)] == [
        ["a"], ["b"] * 2, ["c"] * 8, ["c"] * 8, ["c"]
    ]  # fmt: skip
    assert list(_units([1, 1, 2])) == [[1], [1], [2]]


@pytest.mark.slow
def test_scans_are_read_on_the_nodes(inbox, tmp_path, cluster):
    """The words come out as on one machine."""
    write_scan(inbox / "a.pdf", [TEXT, ("A second page",)])
    (inbox / "deck").mkdir()
    draw_text(TEXT).save(inbox / "deck" / "1.png")
    report = ingest(inbox, tmp_path / "over", ray=cluster)
    assert (report.ingested, report.ocr_pages) == (["a", "deck"], 3)
    ingest(inbox, tmp_path / "here", workers=1)
    assert files(tmp_path / "over") == files(tmp_path / "here")

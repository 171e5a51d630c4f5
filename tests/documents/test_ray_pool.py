import os
import time
from pathlib import Path

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.commands.index import _config
from docagent_rl.commands.index import app as index_app
from docagent_rl.commands.ingest import ingest_command
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.chunks import PAGES_PER_CHUNK
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.ray_pool import RayPool
from docagent_rl.documents.settings import DocumentError, IngestLimits
from docagent_rl.lab.synth import SynthSettings, synthesize
from docagent_rl.lab.synth.settings import DocumentDifficulty
from docagent_rl.samples.questions import read_questions
from tests.commands.conftest import called
from tests.documents.here import files_of, ingest_here, interrupted_after
from tests.documents.scans import TEXT, draw_text

FAST, LIMITS = RenderSettings(dpi=20), IngestLimits(seconds=3600)


@pytest.fixture(scope="module")
def cluster():
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    cluster.add_node(num_cpus=1)  # two at a time are on two nodes
    ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
    yield cluster.address
    ray.shutdown()
    cluster.shutdown()


def meet(folder: Path) -> str:
    """Wait until two tasks have arrived here; return the id of the node's own process."""
    node = os.environ["RAY_RAYLET_PID"]
    (folder / f"{node}-{os.getpid()}").touch()
    while len(list(folder.glob("*-*"))) < 2:
        time.sleep(0.05)
    return node


@pytest.mark.slow
def test_an_address_without_a_cluster_is_an_error_of_the_user(inbox, ingested, write_pdf):
    """This runs before the tests below connect to a cluster."""
    write_pdf(inbox / "a.pdf", ["text"])
    for address in ("127.0.0.1:1", "local"):
        with pytest.raises(UserError, match="cluster"):
            ingested(ray=address)


@pytest.mark.slow
def test_the_store_is_the_same_byte_for_byte_and_so_is_the_report(
    cluster, inbox, tmp_path, write_pdf, write_image
):
    """The store is also the same after resuming a run of this machine, and with OCR."""
    write_pdf(inbox / "long.pdf", [f"page {n}" for n in range(2 * PAGES_PER_CHUNK)])
    for name in "ab":
        write_pdf(inbox / f"{name}.pdf", [f"{name} {n}" for n in range(3)])
    (inbox / "deck").mkdir()
    draw_text(TEXT).save(inbox / "deck" / "1.png")
    (inbox / "broken.pdf").write_bytes(b"%PDF-1.4 nothing\n%%EOF")
    write_image(inbox / "wide" / "1.png", size=(2010, 10))
    write_image(inbox / "wide" / "2.png")
    far, here = tmp_path / "far", tmp_path / "here"
    report = ingest(inbox, far, settings=FAST, ray=cluster)
    assert report == ingest_here(inbox, here)
    assert files_of(far) == files_of(here)
    assert [failure.name for failure in report.failed] == ["broken.pdf", "wide"]
    assert (report.ingested, report.ocr_pages) == (["a", "b", "deck", "long"], 1)
    StoreLayout(far).manifest("long").unlink()
    with interrupted_after(1), pytest.raises(KeyboardInterrupt):
        ingest_here(inbox, far)
    again = ingest(inbox, far, settings=FAST, ray=cluster)
    assert (again.ingested, again.resumed_pages) == (["long"], PAGES_PER_CHUNK)
    assert again.skipped == ["a", "b", "deck"]
    assert files_of(far) == files_of(here)


def nodes_of_work_since(began: int) -> set[bytes]:
    """Return the nodes of the pool's tasks that began at a time (in ns) or later; Ray reports them
    with a delay.
    """
    import ray

    events = ray._private.state.state._get_all_task_events()
    mine = [each.state_updates for each in events if each.task_info.name == "_outcome"]
    return {
        each.node_id for each in mine if each.node_id and min(each.state_ts_ns.values()) >= began
    }


@pytest.mark.slow
def test_two_nodes_ingest_what_one_process_does_and_index_it(cluster, tmp_path):
    """The pool first runs two tasks, neither of which ends before the other has begun.

    Since a node has room for one, both nodes are then ready for the commands. The cluster is
    released at the end, if nobody else uses it.
    """
    import ray

    synthesize(
        tmp_path / "corpus", SynthSettings(documents=4, difficulties=(DocumentDifficulty.EASY,))
    )
    with RayPool(cluster, 2, IngestLimits(seconds=600), [tmp_path]) as pool:
        names = {outcome.value() for outcome in pool.run(meet, [tmp_path] * 2)}
    assert len(names) == 2
    began, pdfs, far, here = (
        time.time_ns(),
        tmp_path / "corpus" / "pdfs",
        tmp_path / "far",
        tmp_path / "here",
    )
    called(ingest_command, pdfs, "--store", far, "--dpi", "20", "--ray", cluster)
    ingest_here(pdfs, here)
    assert files_of(far) == files_of(here)
    while len(nodes_of_work_since(began)) < 2:
        assert time.time_ns() < began + 60e9, "one node did all the work"
        time.sleep(0.5)
    ray.shutdown()
    at = ("--store", far, "--index", tmp_path / "index")
    build = ("build", *at[:2], "--model", "minilm", "--batch-size", "1", "--out")
    called(index_app, *build, at[3], "--ray", cluster, "--encoders", "2")
    assert not ray.is_initialized()
    called(index_app, *build, tmp_path / "near")
    assert files_of(tmp_path / "near") == files_of(at[3])
    # a server takes the kind of the index that it is given
    assert _config(None, at[3]).kind == "dense"
    asked = next(
        each for each in read_questions(tmp_path / "corpus" / "samples.jsonl") if each.gold_pages
    )
    found = called(index_app, "search", asked.question, *at, "--top-k", "3").output
    assert "{}#{}".format(*min(asked.gold_pages)) in found


@pytest.mark.slow
def test_tasks_that_hang_cost_themselves_and_other_errors_are_raised(cluster):
    with RayPool(cluster, 1, IngestLimits(seconds=1), []) as pool:
        (slow,) = pool.run(time.sleep, [3600])
        assert isinstance(slow.error, DocumentError)
        with pytest.raises(TypeError):
            list(pool.run(abs, [-1, "a"]))


@pytest.mark.slow
def test_a_node_that_does_not_see_a_folder_is_named(cluster, tmp_path):
    shared = [tmp_path, tmp_path / "elsewhere"]
    with (
        pytest.raises(InfrastructureError, match="elsewhere"),
        RayPool(cluster, 1, LIMITS, shared) as pool,
    ):
        list(pool.run(abs, [1]))

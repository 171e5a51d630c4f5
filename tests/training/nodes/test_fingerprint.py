"""What nodes tell of what they see; `tests/e2e/nodes.py` asks real ones."""

from __future__ import annotations

import json
import shutil

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.training.nodes import fingerprint
from docagent_rl.training.nodes.check import Node, problem_message, usable_nodes
from docagent_rl.training.nodes.fingerprint import Fingerprint, of_file, of_index, of_model, of_store
from docagent_rl.training.nodes.report import NodeReport


@pytest.fixture
def copied(world, tmp_path):
    shutil.copytree(world.root / "store", tmp_path / "store")
    shutil.copytree(world.root / "index", tmp_path / "index")
    return tmp_path


def test_a_copy_is_the_same_and_pages_drawn_otherwise_are_another_store(world, copied):
    """The hashes of the pages alone differ, and no file's size need."""
    assert of_store(copied / "store") == of_store(world.root / "store")
    assert of_index(copied / "index") == of_index(world.root / "index")
    pdf = min((world.root / "synthetic" / "pdfs").glob("*.pdf"))
    shutil.copytree(pdf.parent, copied / "one", ignore=lambda _, names: {*names} - {pdf.name})
    ingest(copied / "one", copied / "other", workers=1, settings=RenderSettings(jpeg_quality=71))
    (name,) = (path.name for path in (copied / "other" / "documents").iterdir())
    for manifest in (copied / "store" / "documents").glob("*.json"):
        if manifest.name != name:
            manifest.unlink()
    mine, theirs = of_store(copied / "store"), of_store(copied / "other")
    assert mine.what == theirs.what == "1 documents"
    assert mine.digest != theirs.digest


def test_a_store_that_lost_a_document_or_a_page(copied):
    before = of_store(copied / "store")
    first = min((copied / "store" / "documents").glob("*.json"))
    page = json.loads(first.read_text())["pages"][0]["image"]
    next((copied / "store" / "objects").rglob(f"{page}.jpg")).unlink()
    with pytest.raises(UserError, match=r"\b1 of '"):
        of_store(copied / "store")
    first.unlink()
    assert of_store(copied / "store") != before
    assert of_store(copied / "store").what == "2 documents"


def test_an_index_by_its_header_and_sizes(copied):
    before = of_index(copied / "index")
    array = max((copied / "index").rglob("*.npy"), key=lambda path: path.stat().st_size)
    array.write_bytes(array.read_bytes()[:-1])
    assert of_index(copied / "index") != before
    (copied / "index" / HEADER).unlink()
    with pytest.raises(FileNotFoundError):
        of_index(copied / "index")


def test_a_model_by_its_configuration_and_sizes(tmp_path):
    (tmp_path / ".cache").mkdir()
    found = []
    for config, size in (("{}", 10), ("{}", 11), ("[]", 11)):
        (tmp_path / "config.json").write_text(config)
        (tmp_path / "model.safetensors").write_bytes(bytes(size))
        found.append(of_model(tmp_path).digest)
        (tmp_path / ".cache" / str(len(found))).touch()
        assert of_model(tmp_path).digest == found[-1]
    assert len(set(found)) == 3


def test_a_file_by_its_size_and_end(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "TAIL_BYTES", 4)
    for name, content in {"a": "12345678", "b": "x2345678", "c": "12345670", "d": "345678"}.items():
        (tmp_path / name).write_text(content)
    found = {name: of_file(tmp_path / name).digest for name in "abcd"}
    assert found["a"] == found["b"]
    assert len(set(found.values())) == 3


A, B, C = (Node(letter * 40, f"10.0.0.{number}") for number, letter in enumerate("abc", 1))
STORE = "docagent.store=/w/store"
OLD, NEW = Fingerprint("0" * 64, "10 documents"), Fingerprint("1" * 64, "12 documents")


def test_every_problem_of_every_node_is_told():
    assert problem_message({A: NodeReport(seen={STORE: NEW}), B: NodeReport(seen={STORE: NEW})}) is None
    lacks = ("docagent.prompt=/p: No such file", "the environment variable K is not set")
    reports = {
        A: NodeReport(seen={STORE: NEW}),
        B: NodeReport(lacks, {STORE: OLD}),
        C: NodeReport((f"{STORE}: gone",)),
    }
    lines = problem_message(reports).splitlines()
    assert lines[0].startswith("3 ")
    assert f"  {B}: {lacks[0]}" in lines
    assert f"  {C}: {STORE}: gone" in lines
    difference = f"12 documents, 11111111 on {A}; 10 documents, 00000000 on {B}"
    assert any(STORE in line and difference in line for line in lines)
    assert str(A) == "10.0.0.1 (aaaaaaaa)"


def test_nodes_where_nothing_can_be_placed_are_not_asked():
    nodes = {"b": {"CPU": 4}, "a": {"GPU": 8}, "c": {"CPU": 4}, "d": {"memory": 4}}
    rows = [
        {"NodeID": f"of {name}", "NodeManagerAddress": name, "Alive": name != "c", "Resources": resources}
        for name, resources in nodes.items()
    ]
    assert usable_nodes(rows) == [Node("of a", "a"), Node("of b", "b")]

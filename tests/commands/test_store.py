"""Documents of a store are listed and removed by users."""

import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.ingest import check_command, ingest_command
from docagent_rl.commands.store import app
from tests.commands.conftest import called
from tests.documents.conftest import write_image, write_pdf


@pytest.fixture
def folder(tmp_path):
    write_pdf(
        tmp_path / "inbox" / "2019" / "[red]report.pdf",
        ["alpha", "", "gamma"],
        outline=[("Top", 0, 1)],
    )
    write_pdf(tmp_path / "inbox" / "other.pdf", ["delta"])
    write_image(tmp_path / "inbox" / "deck" / "1.png")
    options = "--store", tmp_path / "store", "--dpi", 20, "--workers", 1
    called(ingest_command, tmp_path / "inbox", *options)
    return tmp_path


@pytest.fixture
def run(folder):
    def command(name, *words, **expected):
        return called(app, name, folder / "store", *words, **expected).output

    return command


def test_documents_are_listed(run):
    told = run("list")
    assert "2019/[red]report" in told
    rows = {row["doc_id"]: row for row in json.loads(run("list", "--json"))}
    assert list(rows) == ["2019/[red]report", "deck", "other"]
    assert rows["2019/[red]report"] == {
        "doc_id": "2019/[red]report",
        "pages": 3,
        "ocr_pages": 0,
        "textless_pages": 1,
        "source": "2019/[red]report.pdf",
    }


def test_a_document_is_shown_with_what_its_text_is_from(run):
    told = run("show", "2019/[red]report")
    assert "2019/[red]report.pdf" in told
    assert "dpi=20" in told
    facts = json.loads(run("show", "2019/[red]report", "--json"))
    assert facts["bookmarks"] == 1
    assert [page["text"] for page in facts["page_facts"]] == ["layer", "none", "layer"]
    assert facts["page_facts"][1]["reason"] == "blank"
    with pytest.raises(UserError, match="'repot'"):
        run("show", "repot")


def test_the_text_of_a_page_is_printed_as_it_is(run):
    assert run("show", "2019/[red]report", "--page", "3") == "gamma\n"
    with pytest.raises(UserError, match="1 to 3"):
        run("show", "2019/[red]report", "--page", "4")


def test_pages_that_follow_one_another_and_are_alike_share_a_row(folder, run):
    write_pdf(folder / "inbox" / "long.pdf", ["one", "two", "three", "", "five"])
    called(
        ingest_command, folder / "inbox", "--store", folder / "store", "--dpi", 20, "--workers", 1
    )
    rows = [line.split("│") for line in run("show", "long").splitlines()]
    spans = [cells[1].strip() for cells in rows if len(cells) > 5]
    assert spans == ["1-3", "4", "5"]


def test_documents_are_removed_and_their_room_is_freed(run, folder):
    assert "2 documents removed" in run("remove", "other", "deck")
    assert "3 files removed" in run("prune")
    assert [row["doc_id"] for row in json.loads(run("list", "--json"))] == ["2019/[red]report"]
    assert "1 document, 3 pages" in called(check_command, folder / "store").output
    with pytest.raises(UserError, match="'other'"):
        run("remove", "other")


def test_a_mirror_that_lost_most_of_its_files_is_told_and_has_status_2(folder):
    (folder / "inbox" / "other.pdf").unlink()
    (folder / "inbox" / "deck" / "1.png").unlink()
    options = "--store", folder / "store", "--dpi", 20, "--workers", 1
    told = called(ingest_command, folder / "inbox", *options, "--mirror", status=2).output
    assert "2 gone from the folder" in told
    assert "--however-many" in told
    with pytest.raises(UserError, match="--mirror"):
        called(ingest_command, folder / "inbox", *options, "--however-many")
    told = called(ingest_command, folder / "inbox", *options, "--mirror", "--however-many").output
    assert "2 removed" in told


def test_a_folder_that_is_no_index_is_named_before_any_work(folder):
    with pytest.raises(UserError, match="not an index"):
        called(
            ingest_command, folder / "inbox", "--store", folder / "new", "--index", folder / "inbox"
        )
    assert not (folder / "new").exists()


def test_texts_of_ones_own_replace_those_that_were_read(run, folder):
    texts = folder / "doc2x"
    (texts / "2019" / "[red]report").mkdir(parents=True)
    (texts / "2019" / "[red]report" / "page_2.md").write_text("# Second\n")
    told = " ".join(run("texts", texts).split())
    assert "1 page of 1 document with a text of yours; 1 document changed" in told
    assert "2 documents without one: deck, other" in told
    assert "index update" in told
    assert run("show", "2019/[red]report", "--page", "2").strip() == "# Second"
    facts = json.loads(run("show", "2019/[red]report", "--json"))
    assert [page["text"] for page in facts["page_facts"]] == ["layer", "own", "layer"]
    assert "0 documents changed" in run("texts", texts, "--doc", "2019/[red]report")
    with pytest.raises(UserError, match="'repot'"):
        run("texts", texts, "--doc", "repot")
    with pytest.raises(UserError, match="no text for any of the 1 documents"):
        run("texts", texts, "--doc", "other")

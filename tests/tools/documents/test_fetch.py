"""Fetching out of real Debian packages, by the real apt, from a repository in a folder."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pypdfium2
import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.errors import InfrastructureError, UserError
from tools.documents.apt import read_member
from tools.documents.fetch import Outcome, fetch, place
from tools.documents.manifest import Fetched, Manifest, Scan

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in ("apt-get", "dpkg-deb")), reason="needs Debian's apt"
    ),
]


def pdf(folder: Path, *pages: str) -> bytes:
    path = folder / "made.pdf"
    canvas = Canvas(str(path), invariant=1, pagesize=(200, 100))
    for text in pages:
        canvas.drawString(20, 50, text)
        canvas.showPage()
    canvas.save()
    return path.read_bytes()


def package(repository: Path, name: str, version: str, files: dict[str, bytes]) -> None:
    root = repository / f"root-{name}"
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    control = (
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: A <a@b.c>\nDescription: d\n"
    )
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN" / "control").write_text(control)
    deb = repository / f"{name}.deb"
    subprocess.run(["dpkg-deb", "-b", "--root-owner-group", root, deb], check=True, capture_output=True)
    shutil.rmtree(root)
    data = deb.read_bytes()
    with (repository / "Packages").open("a") as index:
        index.write(
            f"{control}Filename: ./{name}.deb\nSize: {len(data)}\n"
            f"SHA256: {hashlib.sha256(data).hexdigest()}\n\n"
        )


def options(repository: Path) -> list[str]:
    sources = repository / "sources.list"
    sources.write_text(f"deb [trusted=yes] file:{repository} ./\n")
    return [f"Dir::Etc::SourceList={sources}", "Dir::Etc::SourceParts=-"]


def entry(doc_id: str, data: bytes, path: str) -> Fetched:
    licence = {"licence": "GPL-2", "licence_file": "usr/share/doc/a-guide/copyright"}
    source = {"package": "a-guide", "version": "1:2.0-1", "path": path}
    digest = hashlib.sha256(data).hexdigest()
    return Fetched(doc_id=doc_id, title=doc_id, kind="guide", pages=2, sha256=digest, **source, **licence)


def run(manifest: Manifest, folder: Path, given: list[str]) -> Outcome:
    return [outcome for _, outcome in fetch(manifest, folder, given)][-1]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    return folder


@pytest.fixture
def guide(repository: Path, tmp_path: Path) -> Manifest:
    plain, packed = pdf(tmp_path, "one", "two"), pdf(tmp_path, "three", "four")
    files = {"usr/share/doc/guide.pdf": plain, "usr/share/doc/more.pdf.gz": gzip.compress(packed)}
    package(repository, "a-guide", "1:2.0-1", files)
    return Manifest(
        documents=(
            entry("guide", plain, "usr/share/doc/guide.pdf"),
            entry("more", packed, "usr/share/doc/more.pdf.gz"),
        ),
        scans=(Scan(doc_id="guide-scan", of="guide", dpi=100, seed=3),),
    )


def test_documents_are_taken_out_of_packages(guide: Manifest, repository: Path, tmp_path: Path) -> None:
    out, given = tmp_path / "out", options(repository)
    lists = Path("/var/lib/apt/lists")
    before = sorted(lists.iterdir()) if lists.is_dir() else []
    outcome = run(guide, out, given)
    assert outcome.placed == ["guide", "more", "guide-scan"]
    assert not outcome.kept
    assert not outcome.notes
    assert (sorted(lists.iterdir()) if lists.is_dir() else []) == before
    for document in guide.documents:
        data = place(tmp_path / "out", document.doc_id).read_bytes()
        assert hashlib.sha256(data).hexdigest() == document.sha256
    visible = sorted(path.name for path in out.iterdir() if path.name[0] != ".")
    assert visible == ["guide-scan.pdf", "guide.pdf", "more.pdf"]
    assert not (out / ".packages").exists()
    with (
        closing(pypdfium2.PdfDocument(place(out, "guide"))) as original,
        closing(pypdfium2.PdfDocument(place(out, "guide-scan"))) as scan,
    ):
        assert len(scan) == len(original) == 2
        for number in range(2):
            assert scan[number].get_size() == pytest.approx(original[number].get_size())
            assert scan[number].get_textpage().get_text_bounded().strip() == ""
            # it shows the page: dark where the letters are, about as much as the original
            dark = [(each[number].render(grayscale=True).to_numpy() < 128).sum() for each in (original, scan)]
            assert 0.5 * dark[0] < dark[1] < 2 * dark[0]
    # what is there stays, and nothing is fetched
    times = {path.name: path.stat().st_mtime_ns for path in out.glob("*.pdf")}
    shutil.rmtree(repository)
    assert run(guide, out, given).kept == ["guide", "more", "guide-scan"]
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("*.pdf")} == times


def test_a_run_goes_on_after_an_interruption(guide: Manifest, repository: Path, tmp_path: Path) -> None:
    out, given = tmp_path / "out", options(repository)
    first = fetch(guide, out, given)
    next(first)
    first.close()
    assert not (out / "guide-scan.pdf").exists()
    place(out, "more").write_bytes(b"%PDF half of it")
    outcome = run(guide, out, given)
    assert outcome.kept == ["guide"]
    assert outcome.placed == ["more", "guide-scan"]


def test_a_scan_follows_its_original_and_its_settings(
    guide: Manifest, repository: Path, tmp_path: Path
) -> None:
    out, given = tmp_path / "out", options(repository)
    run(guide, out, given)
    before = place(out, "guide-scan").read_bytes()
    other = guide.model_copy(update={"scans": (guide.scans[0].model_copy(update={"seed": 4}),)})
    assert run(other, out, given).placed == ["guide-scan"]
    assert place(out, "guide-scan").read_bytes() != before
    place(out, "guide-scan").write_bytes(b"altered")
    run(guide, out, given)
    assert place(out, "guide-scan").read_bytes() == before


def test_another_version_is_said_and_must_hold_the_same_document(
    guide: Manifest, repository: Path, tmp_path: Path
) -> None:
    same = guide.documents[0].model_copy(update={"version": "1:1.9-1"})
    outcome = run(Manifest(documents=(same,)), tmp_path / "out", options(repository))
    assert outcome.placed == ["guide"]
    [note] = outcome.notes
    assert re.search(r"a-guide 1:2\.0-1.*1:1\.9-1", note)
    wrong = same.model_copy(update={"doc_id": "other", "sha256": "0" * 64})
    with pytest.raises(UserError, match=r"1:2\.0-1.*1:1\.9-1"):
        run(Manifest(documents=(wrong,)), tmp_path / "out", options(repository))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sha256": "0" * 64}, "guide: .*a-guide 1:2.0-1"),
        ({"path": "usr/share/doc/lost.pdf"}, "guide: a-guide 1:2.0-1.*usr/share/doc/lost.pdf"),
        ({"package": "no-such-package-anywhere"}, "'no-such-package-anywhere'"),
    ],
)
def test_another_document_or_none_is_refused_and_leaves_nothing(
    guide: Manifest, repository: Path, tmp_path: Path, changes: dict, named: str
) -> None:
    wrong = Manifest(documents=(guide.documents[0].model_copy(update=changes),))
    with pytest.raises(UserError, match=named):
        run(wrong, tmp_path / "out", options(repository))
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]


def test_a_folder_that_cannot_be_made_and_a_mirror_that_is_gone(
    guide: Manifest, repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    given = options(repository)
    with pytest.raises(UserError, match="file/out"):
        run(guide, tmp_path / "file" / "out", given)
    (repository / "Packages").unlink()
    with pytest.raises(InfrastructureError, match="apt-get update"):
        run(guide, tmp_path / "out", given)


def test_a_damaged_package_is_refused(guide: Manifest, repository: Path, tmp_path: Path) -> None:
    given = options(repository)
    deb = repository / "a-guide.deb"
    deb.write_bytes(deb.read_bytes()[:-40] + bytes(40))
    with pytest.raises(InfrastructureError, match="apt-get download"):
        run(guide, tmp_path / "out", given)
    deb.write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"a-guide\.deb"):
        read_member(deb, "guide.pdf")


def test_the_command_tells_what_it_did(guide: Manifest, repository: Path, tmp_path: Path) -> None:
    listed = tmp_path / "documents.json"
    listed.write_text(json.dumps(guide.model_dump(mode="json")))
    given = [word for option in options(repository) for word in ("--apt", option)]
    command = [sys.executable, "-m", "tools.documents", tmp_path / "out", "--manifest", listed, *given]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"\b3\b.*\b6\b.*{tmp_path / 'out'}.*\b0\b", done.stderr)
    listed.write_text("{}")
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert (done.returncode, str(listed) in done.stderr, "Traceback" in done.stderr) == (2, True, False)

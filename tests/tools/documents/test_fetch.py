"""Documents are fetched from real Debian packages, with the real apt, from a repository in a
folder.
"""

import gzip
import hashlib
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pypdfium2
import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.base.errors import UserError
from tools.documents.fetch import fetch, place
from tools.documents.manifest import Fetched, Manifest, Scan

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in ("apt-get", "dpkg-deb")),
        reason="needs Debian's apt",
    ),
]
CONTROL = (
    "Package: a-guide\nVersion: 1:2.0-1\nArchitecture: all\nMaintainer: A <a@b.c>\nDescription: d\n"
)


def pdf(folder, *pages):
    canvas = Canvas(str(folder / "made.pdf"), invariant=1, pagesize=(200, 100))
    for text in pages:
        canvas.drawString(20, 50, text)
        canvas.showPage()
    canvas.save()
    return (folder / "made.pdf").read_bytes()


def package(repository, files):
    """Make a repository of one package that has these files."""
    root, deb = repository / "root", repository / "a-guide.deb"
    for path, data in {**files, "DEBIAN/control": CONTROL.encode()}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    subprocess.run(
        ["dpkg-deb", "-b", "--root-owner-group", root, deb], check=True, capture_output=True
    )
    shutil.rmtree(root)
    size, digest = deb.stat().st_size, hashlib.sha256(deb.read_bytes()).hexdigest()
    listed = f"{CONTROL}Filename: ./{deb.name}\nSize: {size}\nSHA256: {digest}\n\n"
    (repository / "Packages").write_text(listed)


def entry(doc_id, data, path):
    licence = {"licence": "GPL-2", "licence_file": "usr/share/doc/a-guide/copyright"}
    source = {"package": "a-guide", "version": "1:2.0-1", "path": path}
    digest = hashlib.sha256(data).hexdigest()
    return Fetched(
        doc_id=doc_id, title=doc_id, kind="guide", pages=2, sha256=digest, **source, **licence
    )


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "repository").mkdir()
    return tmp_path / "repository"


@pytest.fixture
def given(repository):
    """Return options with which apt knows no other repository."""
    sources = repository / "sources.list"
    sources.write_text(f"deb [trusted=yes] file:{repository} ./\n")
    return [f"Dir::Etc::SourceList={sources}", "Dir::Etc::SourceParts=-"]


@pytest.fixture
def guide(repository, tmp_path):
    plain, packed = pdf(tmp_path, "one", "two"), pdf(tmp_path, "three", "four")
    paths = "usr/share/doc/guide.pdf", "usr/share/doc/more.pdf"
    package(repository, {paths[0]: plain, f"{paths[1]}.gz": gzip.compress(packed)})
    documents = entry("guide", plain, paths[0]), entry("more", packed, f"{paths[1]}.gz")
    return Manifest(
        documents=documents, scans=(Scan(doc_id="guide-scan", of="guide", dpi=100, seed=3),)
    )


@pytest.fixture
def run(tmp_path, given):
    return lambda manifest: [outcome for _, outcome in fetch(manifest, tmp_path / "out", given)][-1]


def changed(guide, **changes):
    """Return a manifest of the guide's first document, with these changes."""
    return Manifest(documents=(guide.documents[0].model_copy(update=changes),))


def test_documents_are_taken_out_of_packages(guide, repository, run, tmp_path):
    out, lists = tmp_path / "out", Path("/var/lib/apt/lists")
    before = sorted(lists.iterdir()) if lists.is_dir() else []
    outcome = run(guide)
    assert (outcome.placed, outcome.kept, outcome.notes) == (
        ["guide", "more", "guide-scan"],
        [],
        [],
    )
    assert (sorted(lists.iterdir()) if lists.is_dir() else []) == before
    for document in guide.documents:
        assert (
            hashlib.sha256(place(out, document.doc_id).read_bytes()).hexdigest() == document.sha256
        )
    with (
        closing(pypdfium2.PdfDocument(place(out, "guide"))) as original,
        closing(pypdfium2.PdfDocument(place(out, "guide-scan"))) as scan,
    ):
        assert len(scan) == len(original) == 2
        for number in range(2):
            assert scan[number].get_size() == pytest.approx(original[number].get_size())
            assert scan[number].get_textpage().get_text_bounded().strip() == ""
            # it shows the page: dark where the letters are, about as much as the original
            dark = [
                (each[number].render(grayscale=True).to_numpy() < 128).sum()
                for each in (original, scan)
            ]
            assert 0.5 * dark[0] < dark[1] < 2 * dark[0]
    # what is there stays, and nothing is fetched
    times = {path.name: path.stat().st_mtime_ns for path in out.glob("*.pdf")}
    shutil.rmtree(repository)
    assert run(guide).kept == ["guide", "more", "guide-scan"]
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("*.pdf")} == times


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sha256": "0" * 64}, "guide: .*a-guide 1:2.0-1"),
        ({"path": "usr/share/doc/lost.pdf"}, "guide: a-guide 1:2.0-1.*usr/share/doc/lost.pdf"),
        ({"package": "no-such-package-anywhere"}, "'no-such-package-anywhere'"),
    ],
)
def test_another_document_or_none_is_refused_and_leaves_nothing(
    guide, run, tmp_path, changes, named
):
    with pytest.raises(UserError, match=named):
        run(changed(guide, **changes))
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]

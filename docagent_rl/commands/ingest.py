"""`docagent-rl ingest`, `check` and `demo`: fill a store, check files, make a demo workspace."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import typer
from rich.console import Console

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import counted, shown, visible
from docagent_rl.checkpoints.audit import audit_run, has_checkpoints
from docagent_rl.checkpoints.file_status import is_run, runs_hint
from docagent_rl.commands.asking import resumable
from docagent_rl.commands.options import argument, option
from docagent_rl.documents import RendererKind, RenderSettings
from docagent_rl.documents.audit import Audit, audit_store
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import MARKER
from docagent_rl.documents.mirror import mirror
from docagent_rl.documents.quality import quality_summary
from docagent_rl.documents.settings import IngestLimits, OcrMode
from docagent_rl.documents.sources import FailedDocument, IngestReport
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.retrieval.indexes import Encoding, audit_index, open_index, update_index

_DEFAULTS = RenderSettings()
_LIMITS = IngestLimits()
_SHOWN = 10
_SHOWN_USERS = 3


def ingest_command(
    folder: str = argument(
        ...,
        "Folder with PDFs, folders of page images, or images named DOCUMENT_PAGE; one PDF; or the "
        "URL of any of these, such as s3://...",
    ),
    store: Path = option(..., "Folder of the document store, created if needed."),
    renderer: RendererKind = option(
        _DEFAULTS.renderer, "Renderer of PDF pages; pdf2image needs poppler."
    ),
    dpi: int = option(_DEFAULTS.dpi, "Resolution of PDF pages, in pixels per inch."),
    max_side: int = option(_DEFAULTS.max_side, "Maximum length of a page's longer side in pixels."),
    jpeg_quality: int = option(
        _DEFAULTS.jpeg_quality, "Quality of the stored JPEG files, 1 to 95."
    ),
    workers: int | None = option(None, "Number of processes; default: one per CPU."),
    ray: str | None = option(
        None, "Run on this Ray cluster: HOST:PORT, or 'auto'.", metavar="ADDRESS"
    ),
    page_seconds: float = option(_LIMITS.seconds, "Time limit per page, in seconds."),
    page_memory: float = option(_LIMITS.memory_gib, "Memory limit of a process per page, in GiB."),
    copy_to: Path | None = option(
        None, "Folder for a local copy of a URL's files; kept, so that only changes are fetched."
    ),
    ocr: OcrMode = option(
        OcrMode.AUTO, "Pages to read by OCR; auto: those without a good text layer."
    ),
    layout: bool = option(
        False, "Find headings of PDFs without bookmarks by their layout; needs Java.", "--layout"
    ),
    strict: bool = option(False, "Stop at the first bad document.", "--strict"),
    replace: bool = option(
        False, "Replace stored documents whose content or settings have changed.", "--replace"
    ),
    follow: bool = option(
        False,
        "Mirror FOLDER: replace documents that have changed, remove those whose files are gone.",
        "--mirror",
    ),
    however_many: bool = option(
        False,
        "With --mirror: remove documents even if more than half of them are gone.",
        "--however-many",
    ),
    index: list[Path] | None = option(
        None, "Update this index of the store afterwards; may be repeated."
    ),
    thumbnails: list[int] | None = option(
        None,
        "Draw thumbnails that fit into a square of this many pixels, such as 256 for Doc-V*; may "
        "be repeated.",
    ),
) -> None:
    """Store PDFs or page images as page rasters with their text.

    Stored documents are skipped and an interrupted run resumes, so the same command can be
    repeated. Documents that cannot be read, and documents of which the store has another version,
    are listed at the end, and the exit status is 2. The exit status is 3 if something was left out
    because a limit of time or memory was reached or a program failed (for a page, or for
    --layout); running the same command again may succeed.

    Pages without text of their own (scans, page images) are read by OCR, without network. With
    --layout, opendataloader-pdf finds the headings of PDFs without bookmarks by their typography.
    The last number in an image's name is its page number; pages run from 1 without gaps. With
    --ray, all nodes must see FOLDER and STORE under the same paths.

    Files at a URL are copied to --copy-to by fsspec and ingested from there (https:// works as
    installed; s3:// and gs:// need `pip install s3fs` or `gcsfs`). Only new and changed files are
    copied. With --mirror, files that are gone at the URL are deleted from the copy, too.

    With --mirror, the store follows the folder: once everything else is stored, documents whose
    files are gone are removed. If these are more than half of the store, as when a disk is not
    mounted, none is removed without --however-many. A renamed file is not read again. A store that
    is filled from several folders cannot mirror any of them.

    With --thumbnails, runs of Doc-V* find the thumbnails of their overviews in STORE.shown, for all
    documents of the store. Without it, the first trajectory of a document draws them.

    Example: docagent-rl ingest papers/ --store data/store --mirror --index data/bm25
    """
    if "://" in folder and copy_to is None:
        raise UserError(f"{folder}: name a folder for a copy of its files with --copy-to")
    if however_many and not follow:
        raise UserError("--however-many has an effect only with --mirror: give both")
    source = Path(folder)
    if copy_to is not None:
        source = mirror(folder, copy_to, follow=follow, however_many=however_many)
    for each in index or ():
        open_index(each)  # before any work
    settings = RenderSettings(renderer, dpi=dpi, max_side=max_side, jpeg_quality=jpeg_quality)
    limits = IngestLimits(seconds=page_seconds, memory_gib=page_memory)
    console = Console(stderr=True)
    with resumable():
        report = ingest(
            source,
            store,
            settings=settings,
            limits=limits,
            workers=workers,
            progress=True,
            strict=strict,
            replace=replace,
            ray=ray,
            ocr=ocr,
            by_layout=layout,
            mirror=follow,
            however_many=however_many,
            thumbnails=thumbnails or (),
        )
    typer.echo(_ingest_summary(report))
    update_indexes(store, index or ())
    if report.kept:
        text = (
            f"{store} has other versions (other content, or other settings such as --dpi or "
            f"--layout) of {_first(report.kept)}; questions may depend on them. Rename the new "
            "files, or replace the stored documents with --replace"
        )
        console.print(shown(text), soft_wrap=True)
    if report.withheld:
        text = (
            f"more than half of the documents of {store} are no longer in {folder}, so they stay "
            f"in the store: {_first(report.withheld)}. Remove them with --however-many"
        )
        console.print(shown(text), soft_wrap=True)
    for failure in report.unread:
        text = f"stored without headings: {failure.name}: {failure.reason}{_again(failure)}"
        console.print(shown(text), soft_wrap=True)
    for failure in report.failed:
        text = f"not ingested: {failure.name}: {failure.reason}{_again(failure)}"
        console.print(shown(text), soft_wrap=True)
    if report.may_pass:
        raise typer.Exit(3)
    if report.failed or report.kept or report.withheld:
        raise typer.Exit(2)


def _again(failure: FailedDocument) -> str:
    return "; the same command tries it again" if failure.may_pass else ""


def update_indexes(store: Path, indexes: Iterable[Path], encoding: Encoding | None = None) -> None:
    """Update indexes to a store, and print what changed in each."""
    for index in indexes:
        built = update_index(DocumentStore(store), index, encoding)
        whole = f"{counted(built.pages, 'page')} of {counted(built.documents, 'document')}"
        counts = f"{whole}, {counted(built.new, 'page')} read anew"
        typer.echo(f"{index}: {counts if built.changed else 'unchanged'}")


def _ingest_summary(report: IngestReport) -> str:
    """Return what became of the documents as one line, and a line for each thing to know."""
    documents = counted(len(report.ingested), "document")
    ingested = f"{documents} ingested ({counted(report.pages, 'page')})"
    if report.resumed_pages:
        ingested += f", {counted(report.resumed_pages, 'page')} from an interrupted run"
    if report.replaced:
        ingested += f", {len(report.replaced)} of them replaced"
    if report.reused:
        ingested += f", {len(report.reused)} of them from pages that the store had"
    if report.repaired:
        ingested += f", {len(report.repaired)} of them because their stored pages were damaged"

    unchanged = f"{len(report.skipped)} unchanged"
    if report.completed:
        unchanged += f", {len(report.completed)} of them with headings that an earlier run missed"

    outcomes = [ingested, unchanged]
    if report.kept:
        outcomes.append(f"{len(report.kept)} left as the store has them")
    if report.removed:
        outcomes.append(f"{len(report.removed)} removed")
    if report.withheld:
        outcomes.append(f"{len(report.withheld)} gone from the folder")
    outcomes.append(f"{len(report.failed)} failed")

    lines = ["; ".join(outcomes)]
    if files := report.passed_over:
        kinds = [f"{count} {end or 'without an ending'}" for end, count in files.most_common()]
        lines.append(
            f"{counted(files.total(), 'file')} passed over, neither PDF nor image ({_first(kinds)})"
        )
    if report.ocr_pages:
        lines.append(f"{counted(report.ocr_pages, 'page')} read by OCR")
    if report.textless_pages:
        lines.append(f"{counted(report.textless_pages, 'page')} without text")
    if report.thumbnails:
        lines.append(f"{counted(report.thumbnails, 'thumbnail')} drawn")
    lines += map(visible, quality_summary(report.qualities))
    return "\n".join(lines)


def _first(names: Sequence[str], number: int = _SHOWN) -> str:
    more = len(names) - number
    return ", ".join(names[:number]) + (f" and {more} more" if more > 0 else "")


def check_command(
    paths: list[Path] = argument(
        ..., "Stores, indexes, runs of any kind, checkpoints.", metavar="PATH..."
    ),
) -> None:
    """Verify the checksums of all files of document stores, indexes, runs and checkpoints.

    Runs are those of training, `eval`, `collect`, `probe`, `rescore` and `ask`. Damaged and lost
    files are listed, for a store with the pages that need them, and the exit status is then 1.
    Files without a seal, which a killed process leaves, are listed too. `index check --store`
    compares an index with its store.

    Example: docagent-rl check data/store data/bm25 runs/mine
    """
    audits = {path: _audit(path) for path in paths}
    for path, audit in audits.items():
        for damage in audit.damages:
            line = damage.problem
            if str(damage.path) not in line:
                line = f"{damage.path}: {line}"
            if damage.users:
                line += f" [{_first(damage.users, _SHOWN_USERS)}]"
            typer.echo(line)
        for line in (*audit.unsealed, *audit.notes):
            typer.echo(line)
        typer.echo(f"{path}: {audit.contents}; {_verdict(audit)}")
    if any(audit.damages for audit in audits.values()):
        raise typer.Exit(1)


def _audit(path: Path) -> Audit:
    if (path / MARKER).is_file():
        return audit_store(path, progress=True)
    if (path / HEADER).is_file():
        return audit_index(path)
    if has_checkpoints(path) or is_run(path):
        return audit_run(path)
    raise UserError(
        f"{path} is neither a document store (no {MARKER}) nor an index (no {HEADER}) nor a run "
        f"(no checkpoints, no trajectories and no run.json){runs_hint(path)}"
    )


def _verdict(audit: Audit) -> str:
    if not (audit.damages or audit.unsealed):
        return "all intact"
    parts = [f"{len(audit.damages)} damaged" if audit.damages else "no damage found"]
    if audit.unsealed:
        parts.append(
            f"{len(audit.unsealed)} without a seal (named above), where damage may go unnoticed"
        )
    return "; ".join(parts)


def demo_command(
    workspace: Path = option(
        Path("workspace"), "Folder to fill; recipes look for `workspace` by default."
    ),
    pdfs: Path | None = option(
        None, "Folder of your own PDFs to ingest, too; default: <workspace>/pdfs."
    ),
    seed: int = option(0, "Seed of documents, questions and models."),
    system: list[str] | None = option(
        None, "Make the tiny model of this system, or of `all`; may be repeated."
    ),
    claim_only: bool = option(
        False, "Only mark the workspace as one that the demo may fill.", "--claim"
    ),
) -> None:
    """Make a demo workspace: synthetic reports, your PDFs, an index, data files and tiny models.

    Reports and PDFs are ingested. The workspace must be new or made by this command; any other
    folder is refused. Existing parts are kept: delete a model, or the whole folder, to have it made
    again.

    Example: docagent-rl demo --workspace workspace --pdfs ~/reports --system alden --system vrag_rl
    """
    from docagent_rl.lab.tiny.demo import prepare_demo
    from docagent_rl.lab.tiny.workspace import DemoPaths, claim
    from docagent_rl.systems import DEFAULT_SYSTEM, SYSTEMS, get_system

    if claim_only:
        claim(DemoPaths(workspace))
        return
    names = list(dict.fromkeys(system or [DEFAULT_SYSTEM]))
    if "all" in names:
        names = list(SYSTEMS)
    for name in names:
        get_system(name)  # refuse an unknown name before anything is made
    for name in names:
        report = prepare_demo(workspace, pdfs=pdfs, seed=seed, progress=True, system=name)
    Console().print(report.describe(), markup=False, highlight=False, soft_wrap=True)

"""`docagent-rl data generate`: make questions about documents with a model or with templates."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import Progress

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.base.outputs import Force, check_output, write_output, written_before
from docagent_rl.base.text import shown
from docagent_rl.commands.asking import judge_of, resumable, within_budget
from docagent_rl.commands.options import model_options, option
from docagent_rl.documents.store import DocumentStore
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.generate.config import EvidenceKind, GenerateConfig, JudgedBy, PageView
from docagent_rl.samples.parquet import read_samples
from docagent_rl.samples.sample import Sample, Split, json_lines

if TYPE_CHECKING:
    from docagent_rl.endpoints.remote_model import RemoteModel
    from docagent_rl.lab.generate.generation import Generation

_QUESTIONS = 10


@model_options()
@model_options("judge", prefix="judge-", second=True)
def generate_command(
    out: Path = option(..., ".jsonl file to write."),
    *,
    endpoint: ModelConfig,
    judge: ModelConfig,
    store: Path = option(..., "Document store with the documents to ask about."),
    config: Path | None = option(
        None, "YAML file with kinds, difficulties, filters and prompts; see docs/own_data.md."
    ),
    doc: list[str] | None = option(None, "Ask about this document; may be repeated."),
    documents: int | None = option(None, "Number of documents to ask about.", min=1),
    view: PageView | None = option(None, "Show pages as text, as pictures, or as both."),
    check_by: JudgedBy | None = option(
        None, "What judges the answers in the checks: a rule or a model.", "--check-by"
    ),
    limit: int | None = option(
        None, "Without a model: maximum number of questions per document; default: 10.", min=1
    ),
    seed: int | None = option(None, "Seed for choosing pages and for sampling."),
    split: Split | None = option(None, "Split to which all questions belong."),
    exclude: list[Path] | None = option(
        None, "Drop questions that repeat one in this file; may be repeated."
    ),
    dry_run: bool = option(
        False, "Print the maximum of requests, tokens and cost, and send no request.", "--dry-run"
    ),
    force: Force = False,
) -> None:
    """Make questions about your own documents, and keep those that pass every check.

    A model writes questions of the kinds that --config lists, with evidence pages. A question is
    kept if its evidence pages answer it, neither other pages nor the question by itself do, it is
    clear, and it does not repeat another. <out>.funnel.json lists the dropped questions with
    reasons. Replies are cached in <out>.cache, so the same command resumes after an interruption,
    and repeating it after it has finished costs nothing.

    Without a model, templates ask about headings, tables and figures.

    Example: docagent-rl data generate --store data/store --out questions.jsonl \
        --base-url http://127.0.0.1:8000/v1 --model qwen --max-requests 500
    """
    if out.suffix != ".jsonl":
        raise UserError(
            f"--out {out}: name a .jsonl file, which `data convert` then turns into Parquet"
        )
    options = {"view": view, "judge": check_by, "seed": seed, "split": split}
    settings = GenerateConfig.load(config, options)
    opened = DocumentStore(store)
    names = _chosen(opened, doc, documents, settings.seed)
    if not (endpoint.base_url or endpoint.model):
        named = judge.model or judge.base_url
        asking = {
            "--view": view,
            "--check-by": check_by,
            "--judge-model": named,
            "--exclude": exclude,
        }
        asking["--dry-run"] = dry_run
        if needless := [flag for flag, value in asking.items() if value]:
            raise UserError(
                f"{needless[0]} has an effect only if a model writes the questions: name it with "
                "--base-url and --model"
            )
        made = _outlined(opened, names, settings, limit or _QUESTIONS)
        write_output(out, json_lines(made), force=force)
        about = len({sample.doc_id for sample in made})
        typer.echo(f"{out}: {len(made)} questions about {about} of {len(names)} documents")
        return
    if limit is not None:
        raise UserError(
            "--limit is for templates: with a model, --config says how many questions of each kind "
            "to ask for"
        )
    known = [sample for path in exclude or () for sample in read_samples(path)]
    endpoint.require("writing questions")
    other = None if settings.judge is JudgedBy.RULE else judge_of(endpoint, judge)
    with within_budget(endpoint, {"judge": other} if other else {}):
        cache = None if dry_run else out.with_name(f"{out.name}.cache")
        run = _generation(opened, names, settings, known, cache, endpoint, other)
        if dry_run:
            priced = all(each.price.is_known for each in (endpoint, other or endpoint))
            _print_forecast(run, len(names), priced=priced)
        else:
            _write(run, out, len(names), force=force)


def _generation(
    store: DocumentStore,
    names: Sequence[str],
    settings: GenerateConfig,
    known: Sequence[Sample],
    cache: Path | None,
    endpoint: ModelConfig,
    judge: ModelConfig | None,
) -> Generation:
    """Open the models, whose replies are cached in a folder next to the questions."""
    from docagent_rl.endpoints.remote_model import open_model
    from docagent_rl.lab.generate.generation import Generation
    from docagent_rl.lab.generate.replies import load_prompts

    model = open_model(endpoint, "model", cache)
    compares = open_model(judge, "judge", endpoint.cache_dir or cache) if judge else None
    prompts = load_prompts(settings.prompts)
    return Generation(store, names, settings, prompts, model, judge=compares, known=known)


def _print_forecast(run: Generation, documents: int, *, priced: bool) -> None:
    from docagent_rl.lab.generate.forecast import forecast

    most = forecast(run)
    questions = sum(slot.questions for slot in run.slots)
    cost = (
        f"a cost of {most.cost:,.6g}"
        if priced
        else "an unknown cost (give --price-in and --price-out)"
    )
    typer.echo(f"{documents} documents, {len(run.slots)} requests for {questions} questions")
    typer.echo(
        f"with all checks at most {most.requests:,} requests, about {most.tokens:,} tokens and "
        f"{cost}"
    )
    typer.echo("No request was sent.")


def _write(run: Generation, out: Path, documents: int, *, force: bool) -> None:
    """Have a model write questions about documents."""
    replace = may_replace(out, run.digest, force=force)
    errors = Console(stderr=True)
    _ask(run, run.model)
    samples, funnel = run.outcome()
    Console().print(funnel.table())
    if not samples:
        atomic_write(funnel_file(out), funnel.to_json(run.digest))
        why = f"({funnel.commonest()}); see {funnel_file(out)}"
        raise UserError(f"no question passed, and {out} was not written {why}")
    lines = json_lines(samples)
    if not check_output(out, lines, force=replace):
        out.unlink(missing_ok=True)
    # the funnel is written first: by it, the same command recognises the questions as its own
    atomic_write(funnel_file(out), funnel.to_json(run.digest, lines))
    write_output(out, lines)
    typer.echo(
        f"{out}: {len(samples)} questions from {len(run.slots)} requests about {documents} "
        "documents"
    )
    for why, count in Counter(f"{gap.kind.value}: {gap.why}" for gap in run.gaps).items():
        errors.print(shown(f"not asked about {count} documents: {why}"))
    if funnel.unanswered:
        errors.print(
            f"{funnel.unanswered} got no reply and were left out: run the same command to ask again"
        )


def _ask(run: Generation, model: RemoteModel) -> None:
    """Ask for questions with a progress bar on standard error; Ctrl-C ends the command."""
    from docagent_rl.endpoints.meter import BudgetError

    console = Console(stderr=True)
    what = "Asking for questions"

    async def work(tick: Any) -> None:
        if not run.is_known(run.slots[0]):
            for each in dict.fromkeys(filter(None, (model, run.judge))):
                await each.check()
        await run.run(tick)

    try:
        with (
            resumable(),
            Progress(console=console, transient=True, disable=not console.is_terminal) as bar,
        ):
            task = bar.add_task(what, total=len(run.slots))

            def tick() -> None:
                bar.update(task, advance=1, description=f"{what} ({model.meter.words()})")

            asyncio.run(work(tick))
    except BudgetError as error:
        left = f"{run.undone} of {len(run.slots)} requests for questions"
        raise error.leaving(left) from None


def _outlined(
    store: DocumentStore, names: Sequence[str], settings: GenerateConfig, limit: int
) -> list[Sample]:
    """Fill templates with headings, tables and figures of documents."""
    from docagent_rl.lab.generate.outline import DATASET, outline_questions

    given = settings.model_fields_set
    dataset = settings.dataset if "dataset" in given else DATASET
    most = {kind: limit for kind in EvidenceKind if kind is not EvidenceKind.UNANSWERABLE}
    if "kinds" in given:
        most = settings.most()
    made: list[Sample] = []
    for name in names:
        made += outline_questions(
            store.document(name),
            limit=limit,
            seed=settings.seed,
            split=settings.split,
            dataset=dataset,
            most=most,
        )
    if not made:
        raise UserError(
            f"{store.path}: no heading, table or figure in {len(names)} documents can be asked "
            "for. Pages without text need OCR (`docagent-rl ingest --ocr always`) or a model that "
            "sees them (--base-url, --view image); --config may ask for other kinds"
        )
    return made


def _chosen(
    store: DocumentStore, doc: Sequence[str] | None, most: int | None, seed: int
) -> list[str]:
    names = list(dict.fromkeys(doc)) if doc else store.doc_ids()
    if not names:
        raise UserError(f"{store.path}: the store is empty; fill it with `docagent-rl ingest`")
    for name in names:
        store.document(name)
    if most is not None and most < len(names):
        names = sorted(random.Random(f"documents/{seed}").sample(names, most))
    return names


def funnel_file(out: Path) -> Path:
    """Return the file with the numbers of a run, next to its questions."""
    return out.with_name(f"{out.name}.funnel.json")


def may_replace(out: Path, settings: str, *, force: bool) -> bool:
    """Return whether `out` may be replaced by other content; call it before anything is paid for.

    Without `force`, a file is replaced only if the same settings (by their digest) made it and it
    lacks questions to which an endpoint did not reply. A complete file of the same settings is
    written again with the same content.

    Raises:
        UserError: The file was made by something else, was changed while incomplete, or is a
            folder.
    """
    if out.is_dir():
        raise UserError(f"{out} is a folder: name a file")
    if force or not out.exists():
        return force
    recorded = written_before(funnel_file(out), "settings") or {}
    lacking = recorded.get("unanswered")
    lacks = isinstance(lacking, Mapping)
    changed = lacks and lacking.get("sha256") != hashlib.sha256(out.read_bytes()).hexdigest()
    if changed or recorded.get("settings") != settings:
        raise UserError(
            f"{out} was made with other settings or by something else, or was changed since: name "
            "another file, or replace it with --force"
        )
    return lacks

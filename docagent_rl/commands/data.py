"""`docagent-rl data`: make, check, convert and look at questions."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_output, write_outputs
from docagent_rl.base.text import shown, visible
from docagent_rl.commands.data_curate import curate_command
from docagent_rl.commands.data_generate import generate_command
from docagent_rl.commands.data_import import import_command, leakage_command
from docagent_rl.commands.data_replay import replay_command
from docagent_rl.commands.data_rewrite import rewrite_command
from docagent_rl.commands.data_sft import both_files, parquet_file, sft_command, sft_export_command
from docagent_rl.commands.options import AnswerableOnly, Evidence, FractionSeed, argument, option
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.easyr1.rows import RowColumns, is_easyr1, read_easyr1
from docagent_rl.lab.synth import DocumentDifficulty, SynthSettings, synthesize
from docagent_rl.samples.parquet import parquet_bytes, read_samples
from docagent_rl.samples.question_template import (
    PLACEHOLDER,
    TEMPLATE,
    is_placeholder,
    store_template,
)
from docagent_rl.samples.questions import Questions, read_questions
from docagent_rl.samples.sample import Split
from docagent_rl.samples.selection import SplitUnit, split_samples
from docagent_rl.samples.validation import sample_notes, validate_file, validate_questions

app = typer.Typer(
    help="Make, check, convert and look at questions about documents.", no_args_is_help=True
)
app.command("import")(import_command)
app.command("leakage")(leakage_command)
app.command("generate")(generate_command)
app.command("sft")(sft_command)
app.command("export")(sft_export_command)
app.command("curate")(curate_command)
app.command("replay")(replay_command)
app.command("rewrite")(rewrite_command)

_DEFAULTS = SynthSettings()
_KEYS = RowColumns()
_SHOWN_PROBLEMS = 50

_File = Annotated[Path, typer.Argument(help="File of samples (.parquet) or of questions (.jsonl).")]


@app.command()
def synth(
    out: Path = option(..., "Folder to write; new, empty, or with the same corpus in it."),
    documents: int = option(_DEFAULTS.documents, "Number of documents."),
    seed: int = option(_DEFAULTS.seed, "Seed; the same seed gives the same bytes."),
    difficulty: list[DocumentDifficulty] | None = option(
        None, "Length of documents: 3-5, 8-14 or 20-40 pages; may be repeated."
    ),
) -> None:
    """Write PDF reports with questions whose answers and evidence are known by construction.

    The folder gets pdfs/ and samples.jsonl, and appears only when it is complete.

    Example: docagent-rl data synth --out data/synth --documents 24 --seed 7 --difficulty easy
    """
    levels = tuple(difficulty) if difficulty else _DEFAULTS.difficulties
    settings = SynthSettings(documents, seed, difficulties=levels)
    written = synthesize(out, settings, progress=True)
    samples = read_questions(out / "samples.jsonl")
    state = "" if written else ", unchanged"
    typer.echo(f"{documents} documents{state}, {len(samples)} questions in {out}")
    typer.echo(f"splits: {_counts(Counter(each.split.value for each in samples))}")
    typer.echo(f"kinds: {_counts(Counter(each.extra['kind'] for each in samples))}")


@app.command()
def template(
    out: Path = option(Path("questions.jsonl"), "File to write; an existing file is not replaced."),
    store: Path | None = option(
        None, "Document store; writes placeholder questions about its documents."
    ),
) -> None:
    """Write an example file of questions, one JSON object per line.

    Each line needs doc_id (or the name of the PDF), question and answers. Rewards for retrieval
    also need evidence_pages, counted from 1. Everything else is derived.

    With --store, the lines are about documents that are there, and can be converted as they are.
    Their questions begin with "EXAMPLE, replace me": write your own in their place.

    Example: docagent-rl data template --store data/store --out questions.jsonl
    """
    content = TEMPLATE if store is None else store_template(DocumentStore(store))
    write_output(out, content)
    where = "STORE" if store is None else store
    typer.echo(
        f"{out}: replace these lines with your own questions, then run `docagent-rl data validate "
        f"{out} --store {where}`"
    )


@app.command()
def validate(
    file: _File,
    store: Evidence = None,
    recipe: str | None = option(
        None, "Check whether this recipe's system can train on each question."
    ),
) -> None:
    """Check columns, samples and evidence; the exit status is 2 if something is wrong.

    Questions that only some systems can play are listed; with --recipe, questions that the recipe's
    system cannot play are errors.

    Example: docagent-rl data validate data/train.parquet --store data/store
    """
    documents = DocumentStore(store) if store is not None else None
    found = validate_file(file, store=documents)
    _end_with(found.problems)
    if recipe is not None:
        # these import verl, which takes seconds
        from docagent_rl.checks.recipe_check import composed_recipe
        from docagent_rl.config import DocAgentConfig, plain_section
        from docagent_rl.rollout.playability import recipe_playability

        if documents is None:
            raise UserError(
                "--recipe needs --store: whether a system can play a question depends on its "
                "documents"
            )
        check = recipe_playability(
            DocAgentConfig.parse(plain_section(composed_recipe(recipe).docagent)), documents
        )
        problems = (check.problem(sample, validate=False) for _, sample in found.samples)
        _end_with([f"{file}: {problem}" for problem in problems if problem])
    typer.echo(f"{file}: {found.rows} rows are valid ({_counts(_parts(found))})")
    if recipe is None:
        _print_problems(_notes(found))


@app.command()
def convert(
    samples: Path = argument(
        ...,
        "Questions, one JSON object per line (see `data template`); or rows of EasyR1: a .parquet, "
        ".jsonl or .json file, or a folder of them.",
    ),
    out: Path = option(
        ..., ".parquet file to write; if --split is a fraction, the folder for both files."
    ),
    split: str | None = option(
        None, "Keep only train, val or test; or hold out a fraction, such as 0.1, for validation."
    ),
    by: SplitUnit = option(SplitUnit.QUESTION, "Unit of the split: questions, or whole documents."),
    seed: FractionSeed = 0,
    answerable_only: AnswerableOnly = False,
    no_placeholders: bool = option(
        False, "Refuse questions that are still those of `data template`.", "--no-placeholders"
    ),
    store: Evidence = None,
    prompt_key: str = option(_KEYS.prompt, "EasyR1's data.prompt_key: column of the question."),
    answer_key: str = option(_KEYS.answer, "EasyR1's data.answer_key: column of the answer."),
    image_key: str = option(_KEYS.images, "EasyR1's data.image_key: column of the images."),
    image_dir: Path | None = option(
        None, "EasyR1's data.image_dir: folder of image paths; default: that of the file."
    ),
    force: Force = False,
) -> None:
    """Convert questions to the Parquet files that the trainer reads; all of them must be valid.

    A fraction holds out questions. The same question about the same document is never in both
    files, even with other case or spacing. --by document holds out whole documents, to validate on
    documents that were never trained on.

    Rows of EasyR1 are recognized by their column of answers. The images of a row are stored as a
    document (--store), whose id is a hash of their content; build an index of the store afterwards.
    A row without images needs a field doc_id. See docs/coming_from.md.

    Example: docagent-rl data convert questions.jsonl --store data/store --out data --split 0.1
    """
    name = Split(split) if split in set(Split) else None
    try:
        fraction = None if split is None or name is not None else float(split)
    except ValueError:
        raise UserError(
            f"--split {split}: expected {', '.join(Split)} or a fraction such as 0.1"
        ) from None
    outs = [parquet_file(out)] if fraction is None else list(both_files(out))
    keys = RowColumns(prompt_key, answer_key, image_key)
    rows = None
    if is_easyr1(samples, keys):
        rows = read_easyr1(samples, keys, image_dir=image_dir, store=store)
        _end_with(rows.problems)
    documents = DocumentStore(store) if store is not None else None
    if rows is None:
        found = validate_file(samples, store=documents)
    else:
        found = validate_questions(rows, store=documents)
    _end_with(found.problems)
    if no_placeholders:
        _refuse_placeholders(samples, found)
    kept = []
    for _, sample in found.samples:
        if name not in (None, sample.split):
            continue
        if answerable_only and sample.answerable is False:
            continue
        if documents is not None and sample.extra.get("num_pages") is None:
            pages = documents.document(sample.doc_id).num_pages
            sample = dataclasses.replace(sample, extra={**sample.extra, "num_pages": pages})
        kept.append(sample)
    if not kept:
        raise UserError(
            f"{samples}: no sample is left to write (split {split}, {_counts(_parts(found))})"
        )
    shares = [kept] if fraction is None else split_samples(kept, fraction, seed=seed, unit=by)
    parts = dict(zip(outs, shares, strict=True))
    contents = {path: parquet_bytes(part) for path, part in parts.items()}
    new = write_outputs(contents, force=force)
    for path, part in parts.items():
        typer.echo(
            f"{path}: {len(part)} of {found.rows} samples{'' if path in new else ', unchanged'}"
        )
    _print_problems(_notes(found))


@app.command()
def show(file: _File, rows: int = option(5, "Number of samples.")) -> None:
    """Print a few samples.

    Example: docagent-rl data show data/train.parquet --rows 3
    """
    samples = read_samples(file)
    console = Console(soft_wrap=True)
    chosen = samples[: max(rows, 0)]
    for sample in chosen:
        try:
            gold = sorted(sample.labelled_pages)
        except UserError as error:
            raise UserError(f"{file}: question {sample.question_id!r}: {error}") from error
        answers = " | ".join(sample.answers)
        if sample.answerable is False:
            answers = "(no answer in the document)"
        pages = ", ".join(f"{doc_id} p. {page}" for doc_id, page in gold)
        console.rule(shown(f"{sample.question_id} ({sample.split.value})"))
        for line in (sample.question, answers, pages, ", ".join(sample.evidence_sources)):
            console.print(shown(line))
    typer.echo(f"{file.name}: {len(chosen)} of {len(samples)} samples")


def _refuse_placeholders(file: Path, found: Questions) -> None:
    left = sum(is_placeholder(sample) for _, sample in found.samples)
    if left:
        raise UserError(
            f"{file}: {left} of {found.rows} questions still begin with "
            f"{PLACEHOLDER.strip()!r}: write your own questions there, and delete those lines"
        )


def _parts(found: Questions) -> Counter[str]:
    """Count questions by data set and split, and those that their document does not answer."""
    counts = Counter(f"{sample.dataset}/{sample.split.value}" for _, sample in found.samples)
    counts["unanswerable"] = sum(sample.answerable is False for _, sample in found.samples)
    return counts


def _notes(found: Questions) -> list[str]:
    """Return what the user should know about questions that are accepted: some systems refuse
    them, or they are placeholders.
    """
    notes = []
    for line, sample in found.samples:
        where = f"{line}: question {sample.question_id!r}"
        notes += [f"{where}: {note}" for note in sample_notes(sample)]
        if is_placeholder(sample):
            notes.append(f"{where}: still a placeholder of `data template`: write your own")
    return notes


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{visible(name)} {count}" for name, count in sorted(counts.items()))


def _end_with(problems: Sequence[str]) -> None:
    if problems:
        _print_problems(problems)
        raise typer.Exit(2)


def _print_problems(problems: Sequence[str]) -> None:
    console = Console(stderr=True, soft_wrap=True)
    for problem in problems[:_SHOWN_PROBLEMS]:
        console.print(shown(problem))
    if (hidden := len(problems) - _SHOWN_PROBLEMS) > 0:
        console.print(f"... and {hidden} more", markup=False)

"""`docagent-rl data sft` and `data export`: recorded trajectories for supervised trainers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_output, write_stream
from docagent_rl.base.terminal import shown
from docagent_rl.commands.options import FractionSeed, argument, option
from docagent_rl.documents import DocumentStore
from docagent_rl.lab.sft import TrajectoryFormat
from docagent_rl.samples.selection import SplitUnit


def sft_command(
    trajectories: list[Path] = argument(
        ..., "Trajectories, .jsonl, as a run, `collect` or `eval` leaves them; or folders."
    ),
    model: str = option(..., "The model to fine-tune: a folder, or a name of the hub."),
    store: Path = option(..., "Document store whose pages the trajectories show."),
    out: Path = option(..., "File to write; with a fraction, train.parquet or the folder for both files."),
    val_fraction: float | None = option(
        None, "Set so many aside for validation: train.parquet and val.parquet."
    ),
    by: SplitUnit = option(SplitUnit.DOCUMENT, "What the fraction counts and keeps together."),
    seed: FractionSeed = 0,
    max_length: int | None = option(
        None, "Leave out trajectories with a longer row (data.max_length); none is cut.", min=1
    ),
    retokenise: bool = option(
        False,
        "Encode the texts of trajectories that another model sampled; those of chat endpoints are always.",
        "--retokenise",
    ),
    template_kwargs: str = option(
        "{}",
        "Arguments of the chat template, as data.apply_chat_template_kwargs of the RL run: '{\"x\": 1}'.",
    ),
    force: Force = False,
) -> None:
    """Write trajectories as rows for verl's supervised trainer: the tokens and masks of an RL step.

    Sampled tokens are those of the trajectory. What was shown is rendered again and has to come to the tokens
    that were counted. Trajectories of a chat endpoint have texts alone and are encoded for the model.
    Trajectories that were masked, cut off, too long or cannot be encoded are left out and counted.

    Example: docagent-rl data sft trajectories.jsonl --model Qwen/Qwen2.5-VL-7B-Instruct --store data/store
    --out data/sft/vrag_rl --val-fraction 0.05 --max-length 16384
    """
    # these import transformers
    from docagent_rl.lab.collect.collection import read_all, trajectory_files
    from docagent_rl.lab.sft.rows import file_pieces, tokenizer_digest
    from docagent_rl.lab.sft.trajectories import Account, Parts, RowMaker, made_rows

    files = trajectory_files(trajectories)
    chosen, outs = None, [out]
    with trajectories_progress(files, passes=1 if val_fraction is None else 3) as ticked:
        if val_fraction is not None:
            chosen = Parts.choose(ticked(read_all(files)), val_fraction, by, seed)
            outs = list(both_files(out))
        codec = codec_of(model, template_kwargs)
        maker = RowMaker(codec, DocumentStore(store), max_length, retokenise)
        digest, accounts, written = tokenizer_digest(codec.tokenizer), [Account() for _ in outs], []
        for number, (path, account) in enumerate(zip(outs, accounts, strict=True)):
            chosen_here = (
                each
                for each in ticked(read_all(files))
                if chosen is None or chosen.validates(each) == bool(number)
            )
            pieces = file_pieces(made_rows(chosen_here, maker, account), digest, str(path))
            try:
                written.append(write_stream(path, pieces, force=force))
            except UserError:
                _print_dropped([account])
                raise
    for path, account, new in zip(outs, accounts, written, strict=True):
        typer.echo(
            f"{path}: {account.rows} rows of {account.trajectories} trajectories, {account.tokens} tokens "
            f"({account.trained} trained on), {account.images} images, longest row {account.longest}"
            f"{'' if new else ', unchanged'}"
        )
    _print_dropped(accounts)


def export_command(
    trajectories: list[Path] = argument(..., "Trajectories, .jsonl, or folders, as for `data sft`."),
    out: Path = option(..., "Folder for the examples and their images."),
    format: TrajectoryFormat = option(..., "Whose data set is to read them."),
    store: Path = option(..., "Document store whose pages the trajectories show."),
    force: Force = False,
) -> None:
    """Write recorded trajectories for another supervised trainer, images as files beside them.

    llamafactory: a conversation each; trl: prompt and completion of each turn. See docs/sft.md.

    Example: docagent-rl data export runs/c1 --format trl --store data/store --out data/trl
    """
    from docagent_rl.lab.collect.collection import read_all, trajectory_files
    from docagent_rl.lab.sft.exports import DATASET_INFO, FILES, example_lines
    from docagent_rl.lab.sft.trajectories import Account

    if out.is_file():
        raise UserError(f"--out {out} is a file: name a folder")

    def nonempty(lines: Iterable[bytes]) -> Generator[bytes]:
        empty = True
        for line in lines:
            empty = False
            yield line
        if empty:
            raise UserError(f"{', '.join(map(str, files))}: no trajectory can be told as a conversation")

    path, files, account = out / FILES[format], trajectory_files(trajectories), Account()
    with trajectories_progress(files, passes=1) as ticked:
        lines = example_lines(ticked(read_all(files)), format, DocumentStore(store), out, account)
        new = write_stream(path, nonempty(lines), force=force)
    if format is TrajectoryFormat.LLAMAFACTORY:
        write_output(out / "dataset_info.json", json.dumps(DATASET_INFO, indent=2) + "\n", force=force)
    typer.echo(
        f"{path}: {account.rows} examples of {account.trajectories} trajectories, {account.images} images"
        f"{'' if new else ', unchanged'}"
    )
    _print_dropped([account])


def both_files(out: Path) -> tuple[Path, Path]:
    """Return the files for training and validation.

    Raises:
        UserError: the name is that of the second.
    """
    if out.suffix != ".parquet":
        return out / "train.parquet", out / "val.parquet"
    if out.name == "val.parquet":
        raise UserError(f"--out {out}: with a fraction, name the file for training or the folder for both")
    return out, out.with_name("val.parquet")


def codec_of(model: str, template_kwargs: str) -> Any:
    """Return the codec of a model: chat turns as tokens.

    Raises:
        UserError: there is no such model, or the arguments are no JSON object.
    """
    from transformers import AutoProcessor, AutoTokenizer

    from docagent_rl.rollout.chat import ChatCodec, check_template

    try:
        arguments = json.loads(template_kwargs)
    except ValueError as error:
        raise UserError(f"--template-kwargs {template_kwargs}: no JSON ({error})") from error
    if not isinstance(arguments, dict):
        raise UserError(f"--template-kwargs {template_kwargs}: has to be a JSON object")
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        processor = AutoProcessor.from_pretrained(model)
    except (OSError, ValueError) as error:
        first = str(error).strip().partition("\n")[0]
        raise UserError(f"--model {model}: no tokenizer or processor could be loaded ({first})") from error
    vision = getattr(processor, "image_processor", None) is not None
    codec = ChatCodec(tokenizer, processor if vision else None, tuple(arguments.items()))
    check_template(codec)
    return codec


@contextmanager
def trajectories_progress(
    files: Iterable[Path], passes: int
) -> Generator[Callable[[Iterable[Any]], Iterable[Any]]]:
    """Show a bar over the trajectories of files that are read so often; yield a function that counts them."""
    total = 0
    for file in files:
        if file.is_file():  # its reader says so otherwise
            with file.open("rb") as lines:
                total += passes * sum(1 for line in lines if line.strip())
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading trajectories", total=total)

        def ticked(trajectories: Iterable[Any]) -> Iterable[Any]:
            for trajectory in trajectories:
                yield trajectory
                progress.advance(task)

        yield ticked


def _print_dropped(accounts: Iterable[Any]) -> None:
    """Print how many trajectories were left out, by reason."""
    counts = Counter[str]()
    for account in accounts:
        counts.update({reason.value: count for reason, count in account.dropped.items()})
    if counts:
        table = Table("trajectories left out", "why")
        for reason, count in counts.most_common():
            table.add_row(str(count), shown(reason))
        Console(stderr=True).print(table)

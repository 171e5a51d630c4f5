"""`docagent-rl data sft` and `data export`: write trajectories for supervised trainers."""

import itertools
import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import track

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_output, write_stream
from docagent_rl.base.text import unique_keys
from docagent_rl.commands.options import FractionSeed, argument, option
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.sft import TrajectoryFormat
from docagent_rl.samples.selection import SplitUnit


def sft_command(
    trajectories: list[Path] = argument(..., "Trajectories, .jsonl, or the folders of runs."),
    model: str = option(..., "Model to fine-tune: a folder, or a name on the Hugging Face hub."),
    store: Path = option(..., "Document store whose pages the trajectories show."),
    out: Path = option(
        ..., ".parquet file to write; with --val-fraction, the folder for both files."
    ),
    val_fraction: float | None = option(
        None, "Fraction held out for val.parquet; the rest goes to train.parquet."
    ),
    by: SplitUnit = option(SplitUnit.DOCUMENT, "Unit of the split: questions, or whole documents."),
    seed: FractionSeed = 0,
    max_length: int | None = option(
        None, "Leave out rows with more tokens than this (data.max_length).", min=1
    ),
    retokenise: bool = option(
        False, "Re-encode trajectories of another model for this one.", "--retokenise"
    ),
    template_kwargs: str = option(
        "{}", "The RL run's data.apply_chat_template_kwargs, as '{\"x\": 1}'."
    ),
    force: Force = False,
) -> None:
    """Write trajectories as rows for verl's supervised trainer: the tokens and masks of an RL step.

    Sampled token ids are taken from the trajectory. Observations are rendered again and must yield
    the recorded number of tokens. Trajectories of a chat endpoint contain only texts, which are
    encoded for the model. Trajectories that were masked or cut off, or are too long, are left out
    and counted.

    Example: docagent-rl data sft trajectories.jsonl --model Qwen/Qwen2.5-VL-7B-Instruct --store
    data/store --out data/sft/vrag_rl --val-fraction 0.05 --max-length 16384
    """
    # these import transformers
    from docagent_rl.lab.collect.collection import read_all, trajectory_files
    from docagent_rl.lab.sft.rows import file_pieces, tokenizer_digest
    from docagent_rl.lab.sft.trajectories import RowCounts, RowMaker, iter_rows, validation_selector

    outs = [parquet_file(out)] if val_fraction is None else list(both_files(out))
    files = trajectory_files(trajectories)
    validates = None  # tells for each trajectory whether it is held out
    if val_fraction is not None:
        validates = validation_selector(_tracked(read_all(files)), val_fraction, by, seed)
    opened = DocumentStore(store)  # before the model is looked for
    codec = codec_of(model, template_kwargs)
    maker = RowMaker(codec, opened, max_length, retokenise)
    digest = tokenizer_digest(codec.tokenizer)
    for part, path in enumerate(outs):
        counts = RowCounts()
        chosen = (each for each in read_all(files) if validates is None or validates(each) == part)
        pieces = file_pieces(iter_rows(_tracked(chosen), maker, counts), digest, str(path))
        with _reporting_dropped(counts):
            new = write_stream(path, pieces, force=force)
        typer.echo(
            f"{path}: {counts.rows} rows of {counts.trajectories} trajectories, {counts.tokens} "
            f"tokens ({counts.trained} trained on), {counts.images} images, longest row "
            f"{counts.longest}{'' if new else ', unchanged'}"
        )


def sft_export_command(
    trajectories: list[Path] = argument(
        ..., "Trajectories, .jsonl, or folders, as for `data sft`."
    ),
    out: Path = option(..., "Folder for the examples and their images."),
    format: TrajectoryFormat = option(..., "Trainer whose data format to write."),
    store: Path = option(..., "Document store whose pages the trajectories show."),
    force: Force = False,
) -> None:
    """Write recorded trajectories for another supervised trainer, with the images as files.

    llamafactory: one conversation per trajectory; trl: prompt and completion of each turn. See
    docs/sft.md.

    Example: docagent-rl data export runs/c1 --format trl --store data/store --out data/trl
    """
    from docagent_rl.lab.collect.collection import read_all, trajectory_files
    from docagent_rl.lab.sft.exports import DATASET_INFO, FILES, example_lines
    from docagent_rl.lab.sft.trajectories import RowCounts

    if out.is_file():
        raise UserError(f"--out {out} is a file: name a folder")
    path = out / FILES[format]
    files = trajectory_files(trajectories)
    counts = RowCounts()
    lines = iter(
        example_lines(_tracked(read_all(files)), format, DocumentStore(store), out, counts)
    )
    with _reporting_dropped(counts):
        if (first := next(lines, None)) is None:
            raise UserError(
                f"{', '.join(map(str, files))}: no trajectory can be written as a conversation"
            )
        new = write_stream(path, itertools.chain([first], lines), force=force)
    if format is TrajectoryFormat.LLAMAFACTORY:
        write_output(
            out / "dataset_info.json", json.dumps(DATASET_INFO, indent=2) + "\n", force=force
        )
    typer.echo(
        f"{path}: {counts.rows} examples of {counts.trajectories} trajectories, {counts.images} "
        f"images{'' if new else ', unchanged'}"
    )


def parquet_file(out: Path) -> Path:
    """Return `out`, which has to end with .parquet: readers tell the format by the name.

    Raises:
        UserError: It does not.
    """
    if out.suffix != ".parquet":
        raise UserError(f"--out {out}: name a .parquet file, such as {out}.parquet")
    return out


def both_files(out: Path) -> tuple[Path, Path]:
    """Return the files for training and validation."""
    if out.suffix != ".parquet":
        return out / "train.parquet", out / "val.parquet"
    if out.name == "val.parquet":
        raise UserError(
            f"--out {out}: with a fraction, name the file for training or the folder for both"
        )
    return out, out.with_name("val.parquet")


def codec_of(model: str, template_kwargs: str) -> Any:
    """Return the codec of a model: chat turns as tokens."""
    from transformers import AutoProcessor, AutoTokenizer

    from docagent_rl.rollout.chat import ChatCodec, check_template

    try:
        arguments = json.loads(template_kwargs, object_pairs_hook=unique_keys)
    except ValueError as error:
        raise UserError(f"--template-kwargs {template_kwargs}: not JSON ({error})") from error
    if not isinstance(arguments, dict):
        raise UserError(f"--template-kwargs {template_kwargs}: must be a JSON object")
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        processor = AutoProcessor.from_pretrained(model)
    except (OSError, ValueError) as error:
        first = str(error).strip().partition("\n")[0]
        raise UserError(
            f"--model {model}: no tokenizer or processor could be loaded ({first})"
        ) from error
    vision = getattr(processor, "image_processor", None) is not None
    codec = ChatCodec(tokenizer, processor if vision else None, tuple(arguments.items()))
    check_template(codec)
    return codec


def _tracked(trajectories: Iterable[Any]) -> Iterable[Any]:
    """Show the number of trajectories on standard error while they are read."""
    return track(trajectories, "reading trajectories", console=Console(stderr=True), transient=True)


@contextmanager
def _reporting_dropped(counts: Any) -> Generator[None]:
    """Print how many trajectories the block left out, by reason, even if it fails."""
    try:
        yield
    finally:
        for reason, count in counts.dropped.most_common():
            typer.echo(f"left out: {count} trajectories ({reason.value})", err=True)

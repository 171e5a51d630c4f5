"""Checks of a supervised fine-tuning run before models are loaded, and the set-up of its
processes.
"""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from pyarrow import ArrowInvalid
from pyarrow.parquet import ParquetFile

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import tell, traceback_text
from docagent_rl.checkpoints.manifest import read_tracker
from docagent_rl.checks.check import refuse
from docagent_rl.checks.environment import resolve_environment
from docagent_rl.checks.machine import check_device, check_folders, hold_run_folder
from docagent_rl.checks.sft_check import SftSection, check_sft_statically, sft_size_problems
from docagent_rl.config import data_files
from docagent_rl.console.failing import reason
from docagent_rl.console.opening import begin_console
from docagent_rl.console.overview import sft_commands, sft_facts
from docagent_rl.console.run_console import output_is_captured, run_console
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.sft.rows import SftFile, tokenizer_digest
from docagent_rl.models import get_family
from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.patching import patch_status
from docagent_rl.training.settings.keys import tracker_problems
from docagent_rl.training.settings.models import check_model_type, rank_problems

RAY_TRAINER = "verl.trainer.sft_trainer_ray"
LOG_VARIABLE = "VERL_FILE_LOGGER_PATH"
_ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}


class SftPreflight(Callback):
    """Hydra callback of every recipe for supervised fine-tuning, in every process that torchrun
    starts.

    The first process runs the checks; all of them then set up what verl needs: the engine that
    freezes the vision tower, the metrics file, and, without torchrun, a group of one process.
    """

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Run every check, before the trainer's main function."""
        try:
            resolve_environment(config)
            first = int(os.environ.get("RANK", "0")) == 0
            if first:
                check_folders(config)
                hold_run_folder(config)
            begin_console(config, sft_facts, first=first)
            section = check_sft(config, data=first)
            settle_process(config)
            if section.freeze_vision_tower:
                # imported here, since verl's engine takes seconds to import
                from docagent_rl.training.workers.extensions import register_frozen_engine

                register_frozen_engine(str(config.engine.strategy))
        except Exception as error:  # any error at all: an unchecked run must not start
            refuse(error, config)

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Show on the console that the model is loaded, after the checks."""
        if (console := run_console()) is not None:
            console.plan(planned_steps(config))
            console.begin("model, data and checkpoint")

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Say what was done and what comes next, or what the run failed of.

        Raises:
            SystemExit: it failed, with status 1; torchrun ends the other processes.
        """
        if not output_is_captured():
            return
        console = run_console()  # the first process alone has one
        error = job_return._return_value
        if job_return.status is not JobStatus.FAILED or not isinstance(error, BaseException):
            if console is not None:
                console.finish(sft_commands(config))
            return
        print(traceback_text(error), file=sys.stderr)
        if console is not None:
            console.show_tail()
        tell(reason(error))
        raise SystemExit(1) from None

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Refuse `--multirun`: its runs would share one process group."""
        refuse(
            UserError("--multirun (-m) is not supported: run the command once for each setting"),
            config,
        )


def check_sft(config: DictConfig, *, data: bool = True) -> SftSection:
    """Check a composed configuration on this machine; return the section `docagent`.

    With `data`, rows, store and model are checked as well.

    Raises:
        UserError: lists everything that is wrong or missing.
    """
    section = check_sft_statically(config)
    problems = list(_process_problems(config))
    if data:
        problems += _model_problems(config, section)
        problems += _row_problems(config)
    if problems:
        raise UserError("this run cannot start:\n  " + "\n  ".join(problems))
    return section


def settle_process(config: DictConfig) -> None:
    """Set what torchrun would have set for a single process, and where the metrics are written."""
    if "RANK" not in os.environ:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        os.environ.update(_ALONE, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    if LOG_VARIABLE not in os.environ:
        # verl truncates the file when it opens it, so each start gets its own
        folder = Path(str(config.docagent.run_dir)) / "metrics"
        folder.mkdir(parents=True, exist_ok=True)
        steps = 0
        if config.trainer.resume_mode == "auto":
            try:
                steps = read_tracker(Path(str(config.trainer.default_local_dir))) or 0
            except ValueError as error:
                raise UserError(f"trainer.default_local_dir: {error}") from error
        os.environ[LOG_VARIABLE] = str(folder / f"after_{steps}.jsonl")


def planned_steps(config: DictConfig) -> int | None:
    """Return how many steps verl will train; None where the files of rows do not say."""
    if (total := config.trainer.total_training_steps) is not None:
        return total
    try:
        rows = sum(
            ParquetFile(path).metadata.num_rows for path in data_files(config, "train_files")
        )
    except (OSError, ArrowInvalid):
        return None
    most = OmegaConf.select(config, "data.train_max_samples", default=-1)
    used = rows if most < 0 else min(rows, most)
    return config.trainer.total_epochs * (used // config.data.train_batch_size)


def _process_problems(config: DictConfig) -> Iterator[str]:
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if started is not None and started.name == RAY_TRAINER:
        yield (
            f"{RAY_TRAINER} trains in Ray's processes, which this set-up does not reach: start the "
            "run with torchrun"
        )
    yield from sft_size_problems(config, int(os.environ.get("WORLD_SIZE", "1")))
    if not patch_status():
        yield (
            "the plugin docagent_rl is not loaded in this process, so upstream code is not "
            "patched: unset VERL_USE_EXTERNAL_PLUGINS"
        )
    yield from check_device(config)
    yield from tracker_problems(config, installed=True)
    if is_cpu_platform() and config.engine.strategy != "fsdp2":
        yield (
            f"engine.strategy={config.engine.strategy}: on a CPU only fsdp2 is supported; set "
            "engine.strategy=fsdp2"
        )


def _model_problems(config: DictConfig, section: SftSection) -> Iterator[str]:
    # names on a hub are checked by the loader
    path = str(config.model.path)
    if not path.startswith(("/", ".", "~", f"{section.workspace}/")):
        return
    folder = Path(path).expanduser()
    if not (folder / "config.json").is_file():
        made = (
            f"; `docagent-rl demo --system {section.tiny_model}` makes one"
            if section.profile
            else ""
        )
        yield f"model.path={path}: there is no model (config.json is missing){made}"
        return
    if problem := _family_problem(folder, section):
        yield problem
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    yield from rank_problems(get_family(section.model_family), "WORLD_SIZE", ranks)


def _family_problem(folder: Path, section: SftSection) -> str | None:
    from transformers import AutoImageProcessor

    family = get_family(section.model_family)
    try:
        check_model_type(family, "model.path", str(folder))
        if family.vision is not None:
            images = AutoImageProcessor.from_pretrained(folder, local_files_only=True)
            family.check_processor(images, family.vision.grid_of(tiny=bool(section.profile)))
    except UserError as error:
        return str(error)
    except OSError as error:
        return f"model.path={folder}: no image processor: {error}"
    return None


def _row_problems(config: DictConfig) -> Iterator[str]:
    digest = _vocabulary(config)
    store = Path(str(config.data.store))
    documents = DocumentStore(store) if store.is_dir() else None
    for key in ("train_files", "val_files"):
        if config.data[key] is None:
            continue
        files = data_files(config, key)
        rows = 0
        for path in files:
            try:
                file = SftFile(path, digest)
                rows += len(file)
                yield from _length_problems(config, key, file)
                yield from _store_problems(key, file, store, documents)
            except UserError as error:
                yield f"data.{key}: {error}; `docagent-rl data sft` writes such files"
        most = OmegaConf.select(config, f"data.{key.partition('_')[0]}_max_samples", default=-1)
        used = rows if most < 0 else min(rows, most)
        if all(path.is_file() for path in files) and used < config.data.train_batch_size:
            yield (
                f"data.{key}: {used} rows, but a batch needs "
                f"data.train_batch_size={config.data.train_batch_size}; "
                "verl drops incomplete batches, in validation too, so nothing would be left"
            )


def _length_problems(config: DictConfig, key: str, file: SftFile) -> Iterator[str]:
    lengths = file.lengths()
    limits = {"data.max_length": config.data.max_length}
    if config.data.use_dynamic_bsz:
        shared = config.engine.ulysses_sequence_parallel_size
        limits["data.max_token_len_per_gpu"] = config.data.max_token_len_per_gpu * shared
    for name, most in limits.items():
        too_long = int((lengths > most).sum())
        if too_long:
            longest = int(lengths.argmax())
            yield (
                f"data.{key}: {file.path}: {too_long} of {len(file)} rows are longer than "
                f"{name}={most}; the longest has {lengths[longest]} tokens (question "
                f"{file.row(longest).question_id}): write them again with `docagent-rl data sft "
                f"--max-length {most}`"
            )
            return


def _store_problems(
    key: str, file: SftFile, store: Path, documents: DocumentStore | None
) -> Iterator[str]:
    shown = {page.doc_id for picture in file.pictures() for page in picture.pages}
    if shown and documents is None:
        yield f"data.store: {store} does not exist, but the rows of data.{key} show its pages"
    elif documents is not None and (missing := sorted(shown - set(documents.doc_ids()))):
        names = ", ".join(missing[:5])
        yield (
            f"data.{key}: {file.path} shows {len(missing)} documents that {store} does not "
            f"contain: {names}"
        )


def _vocabulary(config: DictConfig) -> str | None:
    """Return the digest of the model's vocabulary; `None` if there is no readable tokenizer, which
    the loader then reports.
    """
    from transformers import AutoTokenizer

    path = OmegaConf.select(config, "model.tokenizer_path") or config.model.path
    try:
        return tokenizer_digest(AutoTokenizer.from_pretrained(str(path)))
    except (OSError, ValueError):
        return None

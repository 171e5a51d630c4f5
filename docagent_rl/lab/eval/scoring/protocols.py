"""The scoring protocol of each benchmark with its judges, and the numbers of navigation and
use.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from docagent_rl.envs.system import PaperJudge
from docagent_rl.lab.eval.metrics.answers import page_numbers
from docagent_rl.lab.eval.metrics.judges import AldenVerdict, AnswerJudge, Extractor
from docagent_rl.lab.eval.metrics.madqa import Effort, kuiper, wasted_effort
from docagent_rl.lab.eval.scoring import official
from docagent_rl.lab.eval.scoring.official import Official
from docagent_rl.lab.eval.scoring.played import Played, Tool
from docagent_rl.lab.eval.scoring.roles import JudgedAnswer, ScoringRole
from docagent_rl.lab.eval.scoring.scored import Form, Measure, Unit, mean
from docagent_rl.rollout.trajectory import Status, Trajectory
from docagent_rl.samples.sample import Sample
from docagent_rl.systems import published

_MM = Extractor.MMLONGBENCH_DOC
_LONG = Extractor.LONGDOCURL
_MM2 = AnswerJudge.MMLONGBENCH_DOC_V2
_MADQA = AnswerJudge.MADQA


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number of a whole run that is not made of sums over questions; it has no interval."""

    measure: Measure
    """Its name and title; the value is the one that separates right from wrong answers."""
    of: Callable[[Sequence[Effort]], float | None]


@dataclass(frozen=True, slots=True)
class Protocol:
    """A method of scoring answers to a benchmark."""

    name: str
    score: Callable[[JudgedAnswer], Official]
    measures: tuple[Measure, ...]
    roles: tuple[ScoringRole, ...] = ()
    statistics: tuple[Statistic, ...] = ()

    @property
    def headline(self) -> Measure:
        """The first measure, which represents a run."""
        return self.measures[0]


JUDGED = mean("judged", "judged right", role=AnswerJudge.TRUE_FALSE)
CORRECT = mean("correct", "judged Correct", role=AnswerJudge.ALDEN)
GENERAL = (
    mean("rule", "rule judge"),
    mean("exact", "exact match"),
    mean("word_f1", "F1 over words"),
    mean("similarity", "ANLS, as of every benchmark"),
)
"""Numbers for every benchmark that need no model; the first is the embedded rule judge's
verdict.
"""

_RANKS = tuple(
    mean(f"{name}@{cut}", f"{title}@{cut}")
    for cut in ("1", "5", "10", "all")
    for name, title in (("recall", "recall"), ("hit", "hit rate"), ("ndcg", "nDCG"), ("mrr", "MRR"))
)

_JUDGED_ALONE = (JUDGED,), (AnswerJudge.TRUE_FALSE,)

PROTOCOLS: Mapping[str, Protocol] = {
    "mmlongbench": Protocol(
        "MMLongBench-Doc",
        official.mmlongbench,
        (
            Measure("acc", "accuracy", "score", role=_MM),
            Measure("f1", "F1", "score", Form.F1, role=_MM),
        ),
        (_MM,),
    ),
    "mmlongbench_v2": Protocol(
        "MMLongBench-Doc-V2",
        official.mmlongbench_v2,
        (
            Measure("acc", "accuracy", "score", role=_MM2),
            Measure("f1", "F1", "score", Form.F1, role=_MM2),
        ),
        (_MM2,),
    ),
    "longdocurl": Protocol(
        "LongDocURL",
        official.longdocurl,
        (
            Measure("acc", "accuracy", "score", role=_LONG),
            Measure(
                "rectified_acc",
                "rectified accuracy (of 2,325)",
                "score",
                Form.RECTIFIED,
                role=_LONG,
            ),
            Measure("acc_inline", "accuracy before JSON", "inline_score", role=_LONG),
            Measure("f1", "F1", "inline_score", Form.F1, role=_LONG),
        ),
        (_LONG,),
    ),
    "mpdocvqa": Protocol(
        "MP-DocVQA",
        official.mp_docvqa,
        (mean("anls", "ANLS"), mean("accuracy", "accuracy"), mean("appa", "APPA")),
    ),
    "dude": Protocol("DUDE", official.dude, (mean("anls", "ANLS"),)),
    "slidevqa": Protocol(
        "SlideVQA",
        official.slidevqa,
        (
            mean("qa_f1", "F1"),
            mean("qa_em", "EM"),
            mean("evidence_f1", "evidence F1"),
            mean("evidence_em", "evidence EM"),
            mean("joint_f1", "joint F1"),
            mean("joint_em", "joint EM"),
            # VRAG-RL and UniDoc-RL report only a judge's verdict, so that agents of all kinds can
            # be compared with them
            JUDGED,
        ),
        (AnswerJudge.TRUE_FALSE,),
    ),
    "vidoseek": Protocol(
        "ViDoSeek",
        official.vidoseek,
        (
            mean("passing", "passing (4 or 5)", role=AnswerJudge.VIDOSEEK),
            mean("grade", "grade", role=AnswerJudge.VIDOSEEK, unit=Unit.NUMBER),
            *_RANKS,
        ),
        (AnswerJudge.VIDOSEEK,),
    ),
    "madqa": Protocol(
        "MADQA",
        official.madqa_score,
        (
            mean("semantic", "semantic accuracy, not adjusted", role=_MADQA),
            Measure(
                "semantic_adjusted", "semantic accuracy", "semantic", Form.ADJUSTED, role=_MADQA
            ),
            mean("accuracy", "ANLS* of 0.5 or more"),
            mean("anls_star", "ANLS*"),
            mean("cited_page_f1", "F1 of cited pages"),
            mean("cited_document_f1", "F1 of cited documents"),
        ),
        (_MADQA,),
        (
            Statistic(Measure("kuiper", "Kuiper of turns", "accuracy", unit=Unit.NUMBER), kuiper),
            Statistic(
                Measure("wasted", "turns, wrong over right", "accuracy", unit=Unit.NUMBER),
                wasted_effort,
            ),
        ),
    ),
    "vidore_v3": Protocol(
        "ViDoRe V3",
        official.vidore_v3,
        # answers are judged in our own form, since that of the benchmark's judge is not published
        (mean("ndcg@10", "nDCG@10"), JUDGED),
        (AnswerJudge.TRUE_FALSE,),
    ),
    **{
        f"uda_{subset}": Protocol(f"UDA {title}", official.uda(subset), (mean("uda_f1", "F1"),))
        for subset, title in (
            ("paper_tab", "PaperTab"),
            ("paper_text", "PaperText"),
            ("feta", "FetaTab"),
        )
    },
    # these papers score with judges of their own; here they are sources of UniDoc-RL's data, whose
    # judge gives a verdict
    "double_bench": Protocol("Double-Bench", official.answer_alone, *_JUDGED_ALONE),
    "visr_bench": Protocol("VisR-Bench", official.answer_alone, *_JUDGED_ALONE),
    "docbench": Protocol("DocBench", official.answer_alone, *_JUDGED_ALONE),
    "vrag": Protocol("VRAG-RL", official.answer_alone, *_JUDGED_ALONE),
    "unidoc": Protocol("UniDoc-RL", official.answer_alone, *_JUDGED_ALONE),
    "alden": Protocol("ALDEN", official.answer_alone, (CORRECT,), (AnswerJudge.ALDEN,)),
}
"""Protocols by the dataset of a sample, as the importers name it."""


def protocol_of(dataset: str) -> Protocol:
    """Return the protocol of a dataset; answers to an unknown one are judged right or wrong."""
    return PROTOCOLS.get(dataset) or Protocol(dataset, official.answer_alone, *_JUDGED_ALONE)


def paper_measures(system: str) -> tuple[Measure, ...]:
    """Return the numbers that the paper of a system reports on every benchmark."""
    judge = paper_judge(system)
    if judge is None:
        return ()
    return (CORRECT,) if judge is PaperJudge.LABEL else (JUDGED,)


def paper_judge(system: str) -> PaperJudge | None:
    """Return the judge of a system's paper; `None` for baselines and the user's own systems."""
    found = published(system)
    return None if found is None else found.paper_judge


def judged_values(roles: Mapping[ScoringRole, Any]) -> dict[str, float | None]:
    """Return the values that depend only on a judge, from parsed replies; without a verdict they
    are 0.
    """
    found: dict[str, float | None] = {}
    if AnswerJudge.TRUE_FALSE in roles:
        found["judged"] = float(roles[AnswerJudge.TRUE_FALSE] is True)
    if AnswerJudge.ALDEN in roles:
        found["correct"] = float(roles[AnswerJudge.ALDEN] == AldenVerdict.CORRECT)
    return found


NAVIGATION = (
    mean("page_recall", "page recall"),
    mean("page_precision", "page precision"),
    mean("page_f1", "page F1"),
    mean("unique_pages", "unique pages", unit=Unit.NUMBER),
)
"""ALDEN, appendix E: over all pages that a trajectory collected. F1 is the mean of the questions'
F1 (Eq. 11).
"""

TOOLS = tuple(
    mean(f"{name}_{part}", f"{name} {title}", unit=unit)
    for name in Tool
    for part, title, unit in (
        ("called", "called", Unit.PERCENT),
        ("recall", "recall", Unit.PERCENT),
        ("precision", "precision", Unit.PERCENT),
        ("f1", "F1", Unit.PERCENT),
        ("pages", "pages", Unit.NUMBER),
    )
)
"""Doc-V*, table 5: each tool over the trajectories that call it."""

USE = (
    mean("finished", "finished"),
    mean("invalid_rate", "invalid turns, per trajectory"),
    Measure("invalid_turns", "invalid turns, over all turns", "invalid", Form.RATIO, "turns"),
    mean("turns", "turns", unit=Unit.NUMBER),
    mean("sent_tokens", "tokens sent", unit=Unit.NUMBER),
    mean("output_tokens", "tokens sampled", unit=Unit.NUMBER),
    mean("image_tokens", "image tokens", unit=Unit.NUMBER),
    mean("images", "images", unit=Unit.NUMBER),
    mean("seconds", "seconds", unit=Unit.SECONDS),
)
"""VRAG-RL, table 3, and the cost of a trajectory. One that was not played counts as unfinished, and
in no other number.
"""
OWN = "env:"
"""Prefix of the environments' own numbers among those of a trajectory."""


def sent_tokens(trajectory: Trajectory) -> int:
    """Return the tokens of all requests of a trajectory: every turn sends its whole context
    again.
    """
    sent = context = trajectory.prompt_tokens if trajectory.turns else 0
    for before, turn in pairwise(trajectory.turns):
        # a new row begins with just the observation
        kept = context + before.sampled - before.reasoning_tokens if turn.row == before.row else 0
        context = kept + before.observation_tokens
        sent += context
    return sent


def navigation_values(sample: Sample, played: Played) -> dict[str, float | None]:
    """Return the values of `NAVIGATION` and `TOOLS` for a trajectory that was played."""
    gold = sample.gold_pages
    numbers = page_numbers(gold, played.collected)
    found: dict[str, float | None] = {f"page_{name}": value for name, value in numbers.items()}
    found["unique_pages"] = float(len(set(played.collected)))
    for name in Tool:
        brought = played.by_tool.get(name)
        found[f"{name}_called"] = float(brought is not None)
        if brought is not None:
            found |= {
                f"{name}_{part}": value for part, value in page_numbers(gold, brought).items()
            }
            found[f"{name}_pages"] = float(len(set(brought)))
    return found


def use_values(trajectory: Trajectory) -> dict[str, float | None]:
    """Return the values of `USE` and the environment's own; one that was not played is just
    unfinished.

    Invalid turns are those without an executable action, as the environment counts them; image
    tokens are those of observations, without the prompt; images include page images and crops.
    """
    if trajectory.masked:
        return {"finished": 0.0}
    turns = trajectory.turns
    metrics = trajectory.metrics
    messages = [
        *trajectory.prompt,
        *(m for turn in turns if not turn.dropped for m in turn.observation),
    ]
    invalid = int(metrics.get("invalid_actions", sum(not turn.record.valid for turn in turns)))
    return {
        **{f"{OWN}{name}": float(value) for name, value in metrics.items() if math.isfinite(value)},
        "finished": float(trajectory.status == Status.FINISHED.value),
        "turns": float(len(turns)),
        "invalid": float(invalid),
        "invalid_rate": invalid / len(turns) if turns else None,
        "sent_tokens": float(sent_tokens(trajectory)),
        "output_tokens": float(sum(turn.sampled for turn in turns)),
        "image_tokens": float(metrics.get("image_tokens", 0.0)),
        "images": float(sum("image" in p for m in messages for p in m.get("parts", ()))),
        "seconds": math.fsum(second for turn in turns for second in turn.seconds.values()),
    }

"""Which prompt files the judges and extractors of the benchmarks are asked with (`prompts/`, our wording)."""

from __future__ import annotations

from enum import StrEnum

from docagent_rl.base.prompts import PromptSpec

EXTRACTOR_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system", "assistant"}),
    variables=frozenset({"question", "answer"}),
)
"""Of extractors, which shorten an answer. A part `assistant` is a last turn in that role, as
MMLongBench-Doc has it."""

JUDGE_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "references", "prediction"}),
)
"""Of judges of one answer."""


class Extractor(StrEnum):
    """Prompts of extractors, by the parser of their replies."""

    MMLONGBENCH_DOC = "mmlongbench_doc_extractor"
    """`mmlongbench_parse`; temperature 0, at most 256 tokens."""
    LONGDOCURL = "longdocurl_extractor"
    """`longdocurl_parse`."""


class AnswerJudge(StrEnum):
    """Prompts of judges, by the parser of their replies."""

    VIDOSEEK = "vidoseek_judge"
    """`parse_score_judge`."""
    TRUE_FALSE = "true_false_judge"
    """`parse_bool_judge`, for VRAG-RL and UniDoc-RL; temperature 0. Short enough for 16 tokens of reply."""
    ALDEN = "alden_judge"
    """`parse_label_judge`."""

"""Judges: how right the answer of an episode is."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from docagent_rl.api_keys import read_api_key
from docagent_rl.prompts import load_prompt
from docagent_rl.rewards.rule_judge import AnlsJudge, ExactMatchJudge, RecallJudge, RuleJudge


class Judge(Protocol):
    """Scores the answer of an episode."""

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Compare an answer with its references.

        Args:
            question: the question.
            references: right answers, any of which counts; a list answer is one reference with its items
                joined by `"; "`; `rule_judge.NOT_ANSWERABLE` where a refusal is right.
            prediction: the text of the terminal answer.

        Returns:
            The outcome in `[0, 1]`; judges that give verdicts return exactly 0 or 1.

        Raises:
            InfrastructureError: a service failed after its retries and deadline.
        """
        ...

    async def check(self) -> None:
        """See that the judge works, before anything depends on it.

        Raises:
            UserError: it does not; the message says what to change.
        """
        ...


class JudgeKind(StrEnum):
    """How answers are judged."""

    RULE = "rule"
    """Normalised containment; no model."""
    EXACT = "exact"
    """Exact match after normalisation."""
    ANLS = "anls"
    """Graded by edit distance."""
    RECALL = "recall"
    """Graded by the share of reference tokens."""
    OPENAI = "openai"
    """A language model behind an OpenAI-compatible endpoint."""


class JudgeConfig(BaseModel):
    """Configuration of the judge. All keys but `kind` and `threshold` belong to `openai`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: JudgeKind = JudgeKind.RULE
    threshold: float = Field(0.5, ge=0, le=1)
    """`anls`: similarities below it count as 0."""
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; `null` for servers that ask for none."""
    prompt: str = "judge"
    """Prompt of the package or path of a `.yaml` file."""
    timeout_s: float = Field(60.0, gt=0)
    """Seconds for one request."""
    deadline_s: float = Field(300.0, gt=0)
    """Seconds for one judgement, waiting and all attempts included."""
    attempts: int = Field(3, ge=1)
    backoff_s: float = Field(1.0, ge=0)
    """Seconds before the second attempt; doubles."""
    concurrency: int = Field(16, ge=1)
    """Requests in flight at most, for every worker."""
    max_tokens: int = Field(512, ge=1)
    cache_dir: Path | None = None
    """Folder in which verdicts are kept; `null` keeps none."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind is JudgeKind.OPENAI and not (self.base_url and self.model):
            raise ValueError("a judge of kind openai needs base_url and model")
        return self


def make_judge(config: JudgeConfig) -> Judge:
    """Build the judge that a configuration describes.

    Raises:
        UserError: the key's environment variable is not set, the prompt is unusable or the cache cannot be
            opened.
    """
    match config.kind:
        case JudgeKind.RULE:
            return RuleJudge()
        case JudgeKind.EXACT:
            return ExactMatchJudge()
        case JudgeKind.ANLS:
            return AnlsJudge(config.threshold)
        case JudgeKind.RECALL:
            return RecallJudge()
        case JudgeKind.OPENAI:
            return _openai_judge(config)


def _openai_judge(config: JudgeConfig) -> Judge:
    # a heavy import that the other kinds do without
    from docagent_rl.chat_client import ChatEndpoint
    from docagent_rl.rewards.judge_client import JUDGE_PROMPT, OpenAIJudge
    from docagent_rl.rewards.verdict_cache import VerdictCache

    endpoint = ChatEndpoint(
        base_url=str(config.base_url),
        model=str(config.model),
        api_key=read_api_key(config.api_key_env, "judge.api_key_env"),
        timeout_s=config.timeout_s,
        deadline_s=config.deadline_s,
        attempts=config.attempts,
        backoff_s=config.backoff_s,
        concurrency=config.concurrency,
        max_tokens=config.max_tokens,
    )
    cache = VerdictCache(config.cache_dir) if config.cache_dir is not None else None
    return OpenAIJudge(endpoint, load_prompt(config.prompt, JUDGE_PROMPT), cache)

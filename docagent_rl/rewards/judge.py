"""The interface of judges, which score answers, and their configuration."""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from pydantic import Field, model_validator

from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.rewards.text import anls, exact_match, token_recall


class Judge(Protocol):
    """Scores the answer of a trajectory."""

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Compare an answer with its references.

        Args:
            question: the question.
            references: the right answers, each of which is accepted; a list answer is one reference
                with its items joined by `"; "`; `text.NOT_ANSWERABLE` if a refusal is right.
            prediction: the text of the final answer.

        Returns:
            The outcome in `[0, 1]`; judges that give verdicts return exactly 0 or 1.

        Raises:
            InfrastructureError: a service still failed after its retries, or missed its deadline.
        """
        ...

    async def check(self) -> None:
        """Check that the judge works before anything depends on it.

        Raises:
            UserError: the judge does not work; the message says what to change.
        """
        ...


class JudgeKind(StrEnum):
    """A way to judge answers."""

    RULE = "rule"
    """Accepts an answer that states the reference and nothing else; uses no model.

    Not for numbers in a paper: see docs/rule_judge.md.
    """
    EXACT = "exact"
    """Exact match after normalisation."""
    ANLS = "anls"
    """Graded by edit distance."""
    RECALL = "recall"
    """Graded by the share of reference tokens in the answer.

    Do not train on it: a list of guesses scores nearly 1.
    """
    OPENAI = "openai"
    """A language model behind an OpenAI-compatible endpoint."""


class JudgeConfig(Endpoint):
    """Configuration of the judge. All keys except `kind` and `threshold` apply to `openai` only."""

    kind: JudgeKind | None = None
    """`null` means that no kind was chosen: `rule` is used if preflight allows it
    (`service_checks`).
    """
    threshold: float = Field(0.5, ge=0, le=1)
    """For `anls`: a similarity below this value counts as 0."""
    prompt: str = "judge"
    """Name of a prompt of this package, or path of a `.yaml` file."""
    cache_dir: Path | None = None
    """Folder in which verdicts are cached; `null` disables the cache."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind is JudgeKind.OPENAI and not self.named:
            raise ValueError("a judge of kind openai needs base_url and model")
        return self


def make_judge(config: JudgeConfig) -> Judge:
    """Return the judge that a configuration describes.

    Raises:
        UserError: the key's environment variable is not set, the prompt is unusable or the cache
            cannot be opened.
    """
    # imported here because parsing a configuration does not need these modules
    if config.kind is JudgeKind.OPENAI:
        from docagent_rl.base.prompts import load_prompt
        from docagent_rl.endpoints.remote_model import RemoteModel
        from docagent_rl.rewards.judge_client import JUDGE_PROMPT, RemoteJudge

        model = RemoteModel(config, "judge", cache_dir=config.cache_dir)
        return RemoteJudge(model, load_prompt(config.prompt, JUDGE_PROMPT))
    from docagent_rl.rewards.rule_judge import LikenessJudge, RuleJudge

    match config.kind:
        case JudgeKind.EXACT:
            return LikenessJudge(exact_match)
        case JudgeKind.ANLS:
            return LikenessJudge(partial(anls, threshold=config.threshold))
        case JudgeKind.RECALL:
            return LikenessJudge(token_recall)
    return RuleJudge()

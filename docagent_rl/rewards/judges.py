"""The judges by their configuration."""

from __future__ import annotations

from docagent_rl.base.prompts import load_prompt
from docagent_rl.rewards.judge import Judge, JudgeConfig, JudgeKind
from docagent_rl.rewards.rule_judge import AnlsJudge, ExactMatchJudge, RecallJudge, RuleJudge


def make_judge(config: JudgeConfig) -> Judge:
    """Build the judge that a configuration describes.

    Raises:
        UserError: the key's environment variable is not set, the prompt is unusable or the cache cannot be
            opened.
    """
    match config.kind:
        case JudgeKind.RULE | None:
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
    from docagent_rl.endpoints.chat_client import ChatEndpoint
    from docagent_rl.rewards.judge_client import JUDGE_PROMPT, OpenAIJudge
    from docagent_rl.rewards.verdict_cache import VerdictCache

    endpoint = ChatEndpoint.of(config, "judge")
    cache = VerdictCache(config.cache_dir) if config.cache_dir is not None else None
    return OpenAIJudge(endpoint, load_prompt(config.prompt, JUDGE_PROMPT), cache)

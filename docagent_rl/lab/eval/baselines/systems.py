"""The baselines as systems, so that configurations can name them."""

from collections.abc import Sequence
from dataclasses import replace

from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import OutcomeMetrics
from docagent_rl.envs.system import System
from docagent_rl.lab.eval.baselines.agents import AgentsConfigT, has_two_rankings
from docagent_rl.lab.eval.baselines.env import BaselineEnv, ConfigT, PageForm
from docagent_rl.lab.eval.baselines.mdocagent import MDocAgentConfig, MDocAgentEnv
from docagent_rl.lab.eval.baselines.react import ReactConfig, ReactEnv
from docagent_rl.lab.eval.baselines.reader import Material, ReaderConfig, ReaderEnv
from docagent_rl.lab.eval.baselines.search_r1 import SearchR1Config, SearchR1Env
from docagent_rl.lab.eval.baselines.vidorag import ViDoRagConfig, ViDoRagEnv
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.base import Pages


class WholeDocumentConfig(ReaderConfig):
    """Settings of the reader that gets the whole document."""

    material: Material = Material.DOCUMENT


class GoldEvidenceConfig(ReaderConfig):
    """Settings of the reader that gets the pages with evidence."""

    material: Material = Material.EVIDENCE


class RagConfig(ReaderConfig):
    """Settings of the reader that gets the texts of the pages one search finds."""

    material: Material = Material.SEARCH


class RagImageConfig(RagConfig):
    """Settings of the reader that gets the images of the pages one search finds."""

    form: PageForm = PageForm.IMAGE


def _system(
    name: str, summary: str, config_type: type[ConfigT], env: type[BaselineEnv[ConfigT]]
) -> System[ConfigT]:
    return System(
        name=name,
        summary=summary,
        config_type=config_type,
        env=env,
        make_grammar=env.make_grammar,
        prompt_spec=env.spec,
        outcome_metrics=OutcomeMetrics("reward/outcome"),
        judged=True,
        # for a tiny model on one core
        small={"display": {"min_pixels": 12544, "max_pixels": 50176}},
    )


def _of_agents(
    name: str,
    summary: str,
    config_type: type[AgentsConfigT],
    env: type[BaselineEnv[AgentsConfigT]],
) -> System[AgentsConfigT]:
    system = _system(name, summary, config_type, env)
    return replace(system, several_rows=True, two_rankings=has_two_rankings)


QUESTION_ONLY = _system("question_only", "the question alone, no document", ReaderConfig, ReaderEnv)
WHOLE_DOCUMENT = _system(
    "whole_document", "as many pages as fit, from the first on", WholeDocumentConfig, ReaderEnv
)
GOLD_EVIDENCE = _system(
    "gold_evidence", "the pages with evidence and no others", GoldEvidenceConfig, ReaderEnv
)
RAG_TEXT = _system("rag_text", "the texts of the best pages of one search", RagConfig, ReaderEnv)
RAG_IMAGE = _system(
    "rag_image", "the images of the best pages of one search", RagImageConfig, ReaderEnv
)
REACT = _system(
    "react", "ReAct with search, open and answer (arXiv 2210.03629)", ReactConfig, ReactEnv
)
SEARCH_R1 = _system(
    "search_r1", "Search-R1's loop on page texts (arXiv 2503.09516)", SearchR1Config, SearchR1Env
)
MDOCAGENT = _of_agents(
    "mdocagent",
    "MDocAgent's five agents on page texts and images (arXiv 2503.13964)",
    MDocAgentConfig,
    MDocAgentEnv,
)
VIDORAG = _of_agents(
    "vidorag",
    "ViDoRAG's seeker, inspector and answer agent on page images (arXiv 2502.18017)",
    ViDoRagConfig,
    ViDoRagEnv,
)


class Unasked:
    """The retriever of agents that never search, for which no index is needed."""

    def __init__(self, **settings: object) -> None:
        del settings

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """Raise `UserError`."""
        raise UserError("this agent searches, but its configuration has no retriever")

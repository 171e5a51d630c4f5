"""Make trajectories of each system at the full size of its recipe.

The environments are real; a scripted policy writes its turns without a model. It never answers the
question before its last turn, so that a trajectory shows as many images as it may.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import filler
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.images import Picture
from docagent_rl.envs.script import Act, Move, Script, ScriptContext
from docagent_rl.envs.turn_record import NO_RECORD
from docagent_rl.lab.agents.random_turns import QuestionStatistics, RandomContext
from docagent_rl.lab.synth import SynthSettings, synthesize
from docagent_rl.lab.synth.settings import DocumentDifficulty
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Limits, Rollout, Sampled
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.doc_v_star.script import DocVStarScript


class FullDocVStar(DocVStarScript):
    """Opens as many pages in each turn as allowed, going through the document in order."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._most = config.fetch.max_pages

    def write(self, act: Act, state: ScriptContext) -> str:
        """Write a turn (see `Script.write`); a fetch names the next pages."""
        text = super().write(act, state)
        if act.move is not Move.FETCH:
            return text
        first = (state.turn - 1) * self._most
        pages = [(first + number) % state.num_pages + 1 for number in range(self._most)]
        before, tag, _ = text.rpartition("<fetch_page>")
        return f"{before}{tag}{pages}</fetch_page></action>"


@dataclass(frozen=True, slots=True)
class FullSize:
    """The recipe and the moves with which a system's trajectories are made.

    Args:
        recipe: the recipe that sets sizes and the passes of the trainer.
        moves: the moves that the policy makes, out of those that the script offers.
        overrides: overrides of the recipe.
        script: a script to use in place of the system's own.
    """

    recipe: str
    moves: frozenset[Move]
    overrides: Sequence[str] = ()
    script: type[Script] | None = None


FULL = {
    # 6 turns of 5 images each: more than the paper's budget of 15 images
    "alden": FullSize(
        "alden_qwen2_5_vl_7b",
        frozenset({Move.SEARCH}),
        (
            "docagent.env.search.top_k=5",
            "docagent.env.search.pages_per_search=5",
            "docagent.env.image_budget.images=30",
            "docagent.env.max_turns=7",
            "data.max_response_length=200000",
        ),
    ),
    "doc_v_star": FullSize(
        "doc_v_star_qwen2_5_vl_7b", frozenset({Move.FETCH}), script=FullDocVStar
    ),
    "mm_doc_r1": FullSize("mm_doc_r1_qwen3_8b", frozenset({Move.SEARCH, Move.READ})),
    "unidoc_rl": FullSize(
        "unidoc_rl_qwen2_5_vl_7b", frozenset({Move.SEARCH, Move.SELECT, Move.CROP})
    ),
    "vrag_rl": FullSize("vrag_rl_qwen2_5_vl_7b", frozenset({Move.SEARCH, Move.CROP})),
}
"""The full size of each system, by the system's name."""


@dataclass(slots=True)
class Played:
    """A trajectory that was made, with its requests and its rows.

    Args:
        trajectory: the record that the trainer archives.
        requests: the images of each request to the rollout server; each request has all images so
            far.
        prompts: the token ids of each request.
        ledgers: the token ledger of each row.
    """

    trajectory: Trajectory
    requests: list[list[Picture]] = field(default_factory=list)
    prompts: list[list[int]] = field(default_factory=list)
    ledgers: list[TurnLedger] = field(default_factory=list)

    @property
    def rows(self) -> list[list[Picture]]:
        """The images of each row."""
        return [[i.ref for i in own.images if isinstance(i, EncodedImage)] for own in self.ledgers]


@dataclass(frozen=True, slots=True)
class Theatre:
    """The trajectories of one system, with the resources that made them.

    Args:
        system: the system's name.
        trajectories: in the order in which they were made.
        resources: environment, store, processor and settings.
        passes: the passes of the trainer over the rows; see `passes_of`.
    """

    system: str
    trajectories: Sequence[Played]
    resources: TrajectoryResources
    passes: Sequence[str]

    @property
    def store(self) -> DocumentStore:
        """The store of the documents that the questions are about."""
        return self.resources.services.store


def workspace(folder: Path, documents: int, seed: int) -> list[list[Sample]]:
    """Make documents of 20 to 40 pages and a BM25 index that all systems use.

    Returns:
        the questions with answers and evidence, one list for each document.
    """
    settings = SynthSettings(
        documents=documents, difficulties=(DocumentDifficulty.HARD,), seed=seed
    )
    synthesize(folder / "synthetic", settings)
    ingest(folder / "synthetic" / "pdfs", folder / "store", workers=1)
    BM25Retriever.build(DocumentStore(folder / "store")).save(folder / "index")
    found: dict[str, list[Sample]] = {}
    for sample in read_questions(folder / "synthetic" / "samples.jsonl"):
        if sample.answers and sample.gold_pages:
            found.setdefault(sample.doc_id, []).append(sample)
    return list(found.values())


def configured(name: str, folder: Path, overrides: Sequence[str] = ()) -> Any:
    """Compose a system's recipe at full size over a workspace; rules stand in for its roles."""
    return composed_recipe(
        FULL[name].recipe,
        [
            "+retriever=bm25",
            f"docagent.workspace={folder}",
            "docagent.judge.kind=rule",
            *[f"docagent.roles.{role}.backend=embedded" for role in _roles(name)],
            *FULL[name].overrides,
            *overrides,
        ],
    )


def _roles(name: str) -> Sequence[str]:
    return ("planner", "reader", "answer", "extractor") if name == "mm_doc_r1" else ()


def passes_of(run: Any) -> list[str]:
    """Return the passes that the trainer makes over the rows of a step, in order."""
    found = {
        "old_log_prob": True,
        "ref_log_prob": bool(
            run.actor_rollout_ref.actor.use_kl_loss or run.algorithm.use_kl_in_reward
        ),
        "values": bool(run.critic.enable),
        "update_critic": bool(run.critic.enable),
        "update_actor": True,
    }
    return [name for name, there in found.items() if there]


def play(
    name: str,
    run: Any,
    processor: Any,
    questions: Sequence[Sequence[Sample]],
    trajectories: int,
    group: int,
) -> Theatre:
    """Make trajectories of a system; those of a group follow each other.

    Args:
        name: the system's name.
        run: the composed recipe, from `configured`.
        processor: the model's processor.
        questions: one list for each document; each group takes a question of the next document.
        trajectories: the number of trajectories.
        group: the number of trajectories of a question.
    """
    config = DocAgentConfig.parse(plain_section(run.docagent))
    seen = None if name == "mm_doc_r1" else processor
    resources = TrajectoryResources(config, processor.tokenizer, seen)
    statistics = QuestionStatistics.of(sample for own in questions for sample in own)
    played = []
    for number in range(trajectories):
        own = questions[number // group % len(questions)]
        asked = own[number // group // len(questions) % len(own)]
        rng = random.Random(number)
        made = Played(
            Trajectory(f"group{number // group}", number % group, 1, "train", asked.to_dict(), name)
        )
        writer = _Policy(FULL[name], resources, asked, statistics, made, rng)
        made.ledgers = asyncio.run(_trajectory(resources, run, writer).play(asked))
        played.append(made)
    return Theatre(name, played, resources, passes_of(run))


def _trajectory(resources: TrajectoryResources, run: Any, policy: _Policy) -> Rollout:
    return Rollout(
        env=resources.environment(validate=False),
        codec=resources.codec,
        encoder=resources.encoder,
        generate=policy.generate,
        limits=Limits(
            run.data.max_prompt_length,
            run.data.max_response_length,
            run.docagent.rollout.turn_tokens,
        ),
        trajectory=policy.played.trajectory,
    )


class _Policy:
    """Writes turns in place of a model, and records the requests in `played`."""

    def __init__(
        self,
        size: FullSize,
        resources: TrajectoryResources,
        asked: Sample,
        statistics: QuestionStatistics,
        played: Played,
        rng: random.Random,
    ) -> None:
        system, config = resources.system, resources.env_config
        script = size.script or system.script
        if script is None:
            raise ValueError(f"{system.name} has no script")
        self._script, self._moves = script(config), size.moves
        self._codec = resources.codec
        pages = resources.services.store.document(asked.doc_id).num_pages
        self._context = RandomContext(asked, system.max_turns(config), rng, pages, statistics)
        self.played = played

    async def generate(
        self, ids: list[int], images: list[EncodedImage], max_tokens: int
    ) -> Sampled:
        """Return a turn of a move that the script offers, with random log-probs."""
        self.played.requests.append([image.ref for image in images])
        self.played.prompts.append(ids)
        turns, context = self.played.trajectory.turns, self._context
        context.turn, context.record = len(turns) + 1, turns[-1].record if turns else NO_RECORD
        text = _longer(
            self._script.write(Act(self._move(self._script.moves(context))), context), context.rng
        )
        sampled = [*self._codec.text_ids(text)[: max_tokens - 1], self._codec.end_of_turn_id]
        return Sampled(sampled, [-context.rng.random() for _ in sampled])

    def _move(self, offered: Mapping[Move, float]) -> Move:
        wanted = {
            move: weight for move, weight in offered.items() if move in self._moves and weight
        }
        if not wanted:  # in the last turn, the script offers only an answer
            wanted = dict(offered)
        return self._context.rng.choices(list(wanted), list(wanted.values()))[0]


def _longer(text: str, rng: random.Random) -> str:
    """Return the turn with 60 words of filler, so that its thoughts are as long as a model's."""
    thoughts = filler(rng, 60)
    return (
        text.replace("<think>", f"<think>{thoughts} ", 1)
        if "<think>" in text
        else f"{thoughts} {text}"
    )

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
from docagent_rl.envs.script import Act, Move, Script
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
from docagent_rl.systems.doc_v_star.script import FullDocVStar


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
class MadeTrajectory:
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
    def row_images(self) -> list[list[Picture]]:
        """The images of each row."""
        return [
            [image.ref for image in ledger.images if isinstance(image, EncodedImage)]
            for ledger in self.ledgers
        ]


@dataclass(frozen=True, slots=True)
class TrajectoryBatch:
    """The trajectories of one system, with the resources that made them.

    Args:
        system: the system's name.
        trajectories: in the order in which they were made.
        resources: environment, store, processor and settings.
        passes: the passes of the trainer over the rows; see `passes_of`.
    """

    system: str
    trajectories: Sequence[MadeTrajectory]
    resources: TrajectoryResources
    passes: Sequence[str]

    @property
    def store(self) -> DocumentStore:
        """The store of the documents that the questions are about."""
        return self.resources.services.store


def make_workspace(folder: Path, documents: int, seed: int) -> list[list[Sample]]:
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

    by_document: dict[str, list[Sample]] = {}
    for sample in read_questions(folder / "synthetic" / "samples.jsonl"):
        if sample.answers and sample.gold_pages:
            by_document.setdefault(sample.doc_id, []).append(sample)
    return list(by_document.values())


def compose_full_size(name: str, folder: Path, overrides: Sequence[str] = ()) -> Any:
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
    trains_critic = bool(run.critic.enable)
    uses_reference = bool(run.actor_rollout_ref.actor.use_kl_loss or run.algorithm.use_kl_in_reward)
    needed = {
        "old_log_prob": True,
        "ref_log_prob": uses_reference,
        "values": trains_critic,
        "update_critic": trains_critic,
        "update_actor": True,
    }
    return [name for name, is_needed in needed.items() if is_needed]


def make_trajectories(
    name: str,
    run: Any,
    processor: Any,
    questions: Sequence[Sequence[Sample]],
    trajectories: int,
    group: int,
) -> TrajectoryBatch:
    """Make trajectories of a system; those of a group follow each other.

    Args:
        name: the system's name.
        run: the composed recipe, from `compose_full_size`.
        processor: the model's processor.
        questions: one list for each document; each group takes a question of the next document.
        trajectories: the number of trajectories.
        group: the number of trajectories of a question.
    """
    config = DocAgentConfig.parse(plain_section(run.docagent))
    # MM-Doc-R1's policy is a text model, which has no image processor
    image_processor = None if name == "mm_doc_r1" else processor
    resources = TrajectoryResources(config, processor.tokenizer, image_processor)
    statistics = QuestionStatistics.of(
        sample for of_document in questions for sample in of_document
    )

    made = []
    for number in range(trajectories):
        group_number, number_in_group = divmod(number, group)
        sample = _sample_of_group(questions, group_number)
        record = Trajectory(
            f"group{group_number}", number_in_group, 1, "train", sample.to_dict(), name
        )
        trajectory = MadeTrajectory(record)
        policy = _Policy(
            FULL[name], resources, sample, statistics, trajectory, random.Random(number)
        )
        trajectory.ledgers = asyncio.run(_rollout(resources, run, policy).play(sample))
        made.append(trajectory)
    return TrajectoryBatch(name, made, resources, passes_of(run))


def _sample_of_group(questions: Sequence[Sequence[Sample]], group_number: int) -> Sample:
    """Return the question of a group: of the next document, and in later rounds the next one."""
    earlier_rounds, document = divmod(group_number, len(questions))
    of_document = questions[document]
    return of_document[earlier_rounds % len(of_document)]


def _rollout(resources: TrajectoryResources, run: Any, policy: _Policy) -> Rollout:
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
        trajectory=policy.made.trajectory,
    )


class _Policy:
    """Writes turns in place of a model, and records the requests in `made`."""

    def __init__(
        self,
        size: FullSize,
        resources: TrajectoryResources,
        sample: Sample,
        statistics: QuestionStatistics,
        made: MadeTrajectory,
        rng: random.Random,
    ) -> None:
        system, config = resources.system, resources.env_config
        script = size.script or system.script
        if script is None:
            raise ValueError(f"{system.name} has no script")
        self._script = script(config)
        self._moves = size.moves
        self._codec = resources.codec
        pages = resources.services.store.document(sample.doc_id).num_pages
        self._context = RandomContext(sample, system.max_turns(config), rng, pages, statistics)
        self.made = made

    async def generate(
        self, ids: list[int], images: list[EncodedImage], max_tokens: int
    ) -> Sampled:
        """Return a turn of a move that the script offers, with random log-probs."""
        self.made.requests.append([image.ref for image in images])
        self.made.prompts.append(ids)

        context = self._context
        turns = self.made.trajectory.turns
        context.turn = len(turns) + 1
        context.record = turns[-1].record if turns else NO_RECORD

        move = self._draw_move(self._script.moves(context))
        text = _with_filler(self._script.write(Act(move), context), context.rng)
        sampled = [*self._codec.text_ids(text)[: max_tokens - 1], self._codec.end_of_turn_id]
        return Sampled(sampled, [-context.rng.random() for _ in sampled])

    def _draw_move(self, offered: Mapping[Move, float]) -> Move:
        """Draw one of the system's moves by the weights that the script offers."""
        allowed = {
            move: weight for move, weight in offered.items() if move in self._moves and weight
        }
        if not allowed:  # in the last turn, the script offers only an answer
            allowed = dict(offered)
        return self._context.rng.choices(list(allowed), list(allowed.values()))[0]


def _with_filler(text: str, rng: random.Random) -> str:
    """Return the turn with 60 words of filler, so that its thoughts are as long as a model's."""
    thoughts = filler(rng, 60)
    if "<think>" in text:
        return text.replace("<think>", f"<think>{thoughts} ", 1)
    return f"{thoughts} {text}"

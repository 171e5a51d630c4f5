"""A system of your own: one search, one look, one answer, and a reward for short answers.

PYTHONPATH=examples python -m verl.trainer.main_ppo --config-name base +profile=cpu \
    docagent.system=custom_system:SYSTEM

In a recipe: `defaults: [base, _self_]`, and its own keys under `docagent.env`. More, and the shorter way on
`ToolEnv`: docs/extending.md.
"""

from pathlib import Path

from pydantic import BaseModel

from docagent_rl.actions.base import Answer, Search
from docagent_rl.actions.grammar import TagGrammar, read_answer, read_search
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.base import (
    DocEnv,
    EndReason,
    ImagePart,
    Marks,
    Observation,
    RewardTerms,
    StepResult,
    TextPart,
)
from docagent_rl.envs.system import System
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.views import page_view

GRAMMAR = TagGrammar({"search": read_search, "answer": read_answer})


class OneLookConfig(BaseModel, extra="forbid"):
    max_image_tokens: int = 72  # what the context has to hold of images
    display: DisplayRule = DisplayRule(min_pixels=12544, max_pixels=50176)


class OneLookEnv(DocEnv):
    def __init__(self, config, services, prompt, *, validate=False):
        self.config = config
        self.services = services
        self.prompt = prompt
        self.turns = 0
        self.terms = {"correct": 0.0, "short": 0.0}

    def show_prompt(self, state):
        return Observation.user(TextPart(self.prompt.render("user", question=state.sample.question)))

    async def step(self, turn):
        self.turns += 1
        parsed = GRAMMAR.parse(turn.text)
        sample = self.state.sample
        action = parsed.action
        logged = LoggedTurn(self.turns, parsed)
        if isinstance(action, Answer):
            correct = await self.services.judge.judge(sample.question, sample.answers, action.text)
            self.terms = {"correct": correct, "short": 1 / (1 + len(action.text.split()))}
        if isinstance(action, Answer) or self.turns == 2:
            end = EndReason.ANSWERED if isinstance(action, Answer) else EndReason.TURN_LIMIT
            return StepResult(None, end, await self.conclude(end), logged.to_dict())
        query = action.query if isinstance(action, Search) else sample.question
        hits = await self.services.retriever.search(query, doc_id=sample.doc_id, top_k=1)
        page = self.services.store.document(sample.doc_id).page(hits[0].ref.page if hits else 1)
        view = page_view(page, self.config.display, self.turns)
        logged.effect = {"kind": "pages", "pages": [view.to_dict()]}
        return StepResult(Observation.user(ImagePart(view.image)), info=logged.to_dict())

    async def conclude(self, reason):
        return RewardTerms(self.terms, 0.9 * self.terms["correct"] + 0.1 * self.terms["short"])

    def metrics(self):
        return {f"reward/{k}": v for k, v in self.terms.items()} | {"turns": float(self.turns)}


SPEC = PromptSpec(frozenset({"user"}), variables=frozenset({"question"}))
SYSTEM = System("one_look", "one look", OneLookConfig, OneLookEnv, lambda _: GRAMMAR, SPEC,
                lambda _: str(Path(__file__).with_suffix(".yaml")), lambda _: 2, lambda _: 1,
                marks=Marks(outcome="reward/correct"))  # fmt: skip

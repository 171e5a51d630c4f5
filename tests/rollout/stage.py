"""Trajectories of VRAG-RL on small documents, with a rollout server of scripted replies."""

from docagent_rl.envs.base import (
    DocEnv,
    EndReason,
    Message,
    Observation,
    RewardTerms,
    Role,
    StepResult,
    TextPart,
    TokenTerm,
)
from docagent_rl.envs.images import render
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.rewards.judge import JudgeConfig, make_judge
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import ImageEncoder
from docagent_rl.rollout.rollout import Limits, Rollout, Sampled
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.env import VragEnv

LIMITS = Limits(prompt=2000, response=3000, turn=200)
SMALL = {"display": {"min_pixels": 12544, "max_pixels": 50176}}


class Script:
    """A rollout server that replies with given lines and records its inputs."""

    def __init__(self, codec, lines):
        self.codec, self.lines = codec, list(lines)
        self.contexts, self.images, self.caps = [], [], []

    async def __call__(self, ids, images, max_tokens):
        self.contexts.append(ids)
        self.images.append(images)
        self.caps.append(max_tokens)
        sampled = self.lines.pop(0)
        if isinstance(sampled, str):
            ids = self.codec.tokenizer.encode(sampled, add_special_tokens=False)
            sampled = [*ids, self.codec.end_of_turn_id]
        return Sampled(sampled[:max_tokens], [-0.25] * len(sampled[:max_tokens]))


class Stage:
    def __init__(self, world, processor):
        self.world, self.processor = world, processor
        self.codec = ChatCodec(processor.tokenizer, processor)
        self.encoder = ImageEncoder(processor, lambda ref: render(ref, world.store))
        self.sample = world.samples[0]

    def rollout(self, lines, *, limits=LIMITS):
        service = RetrieverService(self.world.retriever, attempts=1, backoff_s=0.01)
        services = EnvServices(self.world.store, service, make_judge(JudgeConfig()))
        env = VragEnv(VragConfig.for_variant("paper", **SMALL), services)
        trajectory = Trajectory("u", 0, 1, "train", self.sample.to_dict(), "vrag_rl")
        generate = Script(self.codec, lines)
        return Rollout(env, self.codec, self.encoder, generate, limits, trajectory)


NOTHING = RewardTerms()


class Rewarding(DocEnv):
    """Rewards each turn with what a list says, and shows a new context or goes on as it says.

    Args:
        plan: of each turn, whether a new context follows, its reward, the value of a term on its
            first `word` (or its first characters) and the weight of that term.
        concluding: terms of a trajectory that the rollout ends.
        shown: what the policy sees after a turn.
        prompt: what it sees first.
    """

    def __init__(self, plan, concluding=NOTHING, shown="go on", prompt="begin"):
        self.plan = list(plan)
        self.concluding = concluding
        self.shown = shown
        self.prompt = prompt
        self.rewards, self.seen, self.reasons = [], [], []

    def show_prompt(self, state):
        return Observation.user(TextPart(self.prompt))

    async def step(self, turn):
        fresh, reward, value, weight = self.plan[len(self.rewards)]
        start = max(0, turn.text.find("word"))
        tokens = (TokenTerm("penalty", (start, start + 3), value, weight),) if value else ()
        self.rewards.append(reward + weight * value)
        self.seen.append(turn.text)
        terms = RewardTerms({"bonus": reward / 2, "penalty": value}, reward, tokens)
        if len(self.rewards) == len(self.plan):
            return StepResult(None, end=EndReason.FINISHED, terms=terms)
        message = Message(Role.USER, (TextPart(self.shown),))
        return StepResult(Observation((message,), fresh=fresh), terms=terms)

    async def conclude(self, reason):
        self.reasons.append(reason)
        return self.concluding

    def metrics(self):
        return {}


def search(text):
    return f"<think>look</think><search>{text}</search>"

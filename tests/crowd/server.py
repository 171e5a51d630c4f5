"""The rollout server of a crowd: scripted policies that reply in token ids, seeded by the
trajectory.
"""

import asyncio
import random
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from verl.workers.rollout.replica import TokenOutput

from docagent_rl.envs.script import Script
from docagent_rl.envs.turn_record import NO_RECORD
from docagent_rl.lab.agents.random_turns import QuestionStatistics, RandomContext, random_turn
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.agent_loop.loop import DocAgentLoop

speaking: ContextVar[str] = ContextVar("speaking")
"""The trajectory whose task asks: requests are named after what servers share."""


@dataclass
class Part:
    """A trajectory that is being played."""

    trajectory: Trajectory
    context: RandomContext


@dataclass
class ScriptedServer:
    """A stand-in for vLLM's server: it takes token ids and returns token ids after at most 20 ms.

    What a trajectory says depends on the seed, its name and what its own turns led to, never on
    other trajectories.
    """

    tokenizer: Any
    script: Script
    turns: int
    pages: dict[str, int]
    statistics: QuestionStatistics
    seed: int
    playing: dict[str, Part] = field(default_factory=dict)

    def begin(self, trajectory: Trajectory, sample: Any) -> None:
        """Start a trajectory, perhaps again."""
        name = f"{trajectory.uid}-{trajectory.number}"
        context = RandomContext(
            sample,
            self.turns,
            random.Random(f"{self.seed}/{name}"),
            self.pages[sample.doc_id],
            self.statistics,
        )
        self.playing[name] = Part(trajectory, context)
        speaking.set(name)

    async def generate(
        self,
        *,
        request_id: str,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: Any,
        ticket: Any = None,
    ) -> TokenOutput:
        part = self.playing[speaking.get()]
        await asyncio.sleep(0.02 * part.context.rng.random())
        if sampling_params["temperature"] == 0:  # the policy as answer agent
            text = f"{len(prompt_ids) % 9} people"
        else:
            turns = part.trajectory.turns
            part.context.turn, part.context.record = (
                len(turns) + 1,
                turns[-1].record if turns else NO_RECORD,
            )
            text = random_turn(self.script, part.context).text
        ids = [*self.tokenizer.encode(text, add_special_tokens=False), self.tokenizer.eos_token_id]
        ids = ids[: sampling_params["max_tokens"]]
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields={})


class WatchedLoop(DocAgentLoop):
    """The agent loop; it registers its trajectories at the scripted server."""

    async def _play(
        self, resources: Any, sample: Any, trajectory: Trajectory, sampling: Any
    ) -> Any:
        self.server_manager.begin(trajectory, sample)
        return await super()._play(resources, sample, trajectory, sampling)

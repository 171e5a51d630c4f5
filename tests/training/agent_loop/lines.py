"""A rollout server that replies with given lines, and the agent loop that plays with it."""

import asyncio

from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.workers.rollout.replica import TokenOutput

from docagent_rl.rollout.trajectory import Trajectory, whole_line
from docagent_rl.training.agent_loop.loop import DocAgentLoop

CONTROL = "<|image_pad|>"


class Server:
    """A server that replies with given lines, of which the last is repeated, and records its
    prompts; for None it never replies.
    """

    def __init__(self, tokenizer, lines):
        self.tokenizer, self.lines, self.prompts, self.sampled = tokenizer, list(lines), [], []
        self.reached = asyncio.Event()

    async def generate(self, *, request_id, prompt_ids, sampling_params, image_data, ticket=None):
        self.prompts.append(self.tokenizer.decode(prompt_ids))
        self.sampled.append((sampling_params["temperature"], sampling_params.get("max_tokens")))
        self.reached.set()
        line = self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]
        if line is None:
            await asyncio.Event().wait()
        if isinstance(line, BaseException):
            raise line
        ids = self.tokenizer.encode(line + "<|im_end|>" if line != CONTROL else line)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields={})


async def played(config, server, processor, sample):
    """Return the rows of a trajectory and its record."""
    loop = DocAgentLoop(DictConfigWrap(config), server, server.tokenizer, processor)
    sampling = {"temperature": config.actor_rollout_ref.rollout.temperature}
    rows = await loop.run(sampling, sample=sample.to_json(), uid="u", session_id=0, global_steps=1)
    return rows, Trajectory.from_json(whole_line(b"".join(row.line for row in rows)))

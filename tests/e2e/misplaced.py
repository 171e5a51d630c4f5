"""An agent loop with a deliberate fault: image placeholders one position too early."""

from typing import Any

from docagent_rl.training.agent_loop.loop import DocAgentLoop
from docagent_rl.training.agent_loop.output import DocAgentLoopOutput


class MisplacedLoop(DocAgentLoop):
    """An agent loop that trains on rows whose first image run is moved before its
    `<|vision_start|>`.
    """

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[DocAgentLoopOutput]:
        (output,) = await super().run(sampling_params, **kwargs)
        image = self.tokenizer.convert_tokens_to_ids("<|image_pad|>")
        ids = output.response_ids
        if image in ids:
            first = ids.index(image)
            last = first
            while ids[last + 1] == image:
                last += 1
            ids[first - 1 : last + 1] = [*ids[first : last + 1], ids[first - 1]]
        return [output]

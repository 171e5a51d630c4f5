"""The contexts of baselines of several agents, as text."""

from docagent_rl.envs.base import ImagePart, Observation


def texts_of(observation: Observation) -> tuple[str, str]:
    """Return the texts of a context's system message and of its user message."""
    system, user = (
        "".join("[image]" if isinstance(part, ImagePart) else part.text for part in message.parts)
        for message in observation.messages
    )
    return system, user

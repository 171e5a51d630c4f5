"""Actors that have died, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from docagent_rl.watch.actors import Actor

AGAIN = "Start again: the run goes on from its last checkpoint."

_ADVICE = (
    (
        "AgentLoopWorker",
        "Its trajectories are lost. If it was out of memory, lower data.train_batch_size or "
        "actor_rollout_ref.rollout.agent.num_workers.",
    ),
    (
        "HttpServer",
        "The policy was sampled there. If it was out of memory, lower "
        "actor_rollout_ref.rollout.gpu_memory_utilization or actor_rollout_ref.rollout.max_num_seqs.",
    ),
    (
        "WorkerDict",
        "It holds the model that is trained. If it was out of memory, lower the micro-batches "
        "(actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu and its like).",
    ),
    (
        "Embedder",
        "docagent.advantage.embedder says what it loads and where it runs.",
    ),
    (
        "SearchActor",
        "docagent.retriever says what it opens; docagent.retriever.service how many there are.",
    ),
    (
        "StorageUnit",
        "Its trajectories are lost. If it was out of memory, lower data.train_batch_size or raise "
        "transfer_queue.backend.SimpleStorage.num_data_storage_units.",
    ),
)
"""By a part of the class's name."""
_MEMORY = "See whether the machine was out of memory."


def death_messages(actors: Sequence[Actor]) -> str | None:
    """A message about the actors that died without having been asked to, the first one first.

    Args:
        actors: of the run.
    """
    dead = sorted((actor for actor in actors if actor.death), key=lambda actor: actor.ended_at)
    if not dead:
        return None
    first = dead[0]
    others = f" So did {', '.join(a.label for a in dead[1:4])}." if dead[1:] else ""
    advice = next((text for part, text in _ADVICE if part in first.class_name), _MEMORY)
    return f"{first.label} died: {first.death}{others}\n  {advice} {AGAIN}"

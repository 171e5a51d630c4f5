"""The report of a rehearsal: seconds by part, memory by process, bytes that were moved."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from docagent_rl.lab.rehearsal.meter import PartMemory

TIMES = {
    "gen": "rollout",
    "old_log_prob": "old log-probs",
    "ref": "reference log-probs",
    "values": "values",
    "adv": "advantages",
    "update_critic": "update of the critic",
    "update_actor": "update of the policy",
    "update_weights": "weight sync",
    "save_checkpoint": "checkpoint",
    "step": "whole step",
}
"""Parts of a step, by verl's names in `timing_s/`."""
SHARES = {
    "generate": "sampling",
    "search": "searches",
    "step": "the rest of the environment, with the judge",
    "encode": "images and tokens of what is shown",
}
"""What trajectories wait for, by the names in `docagent/time_share/`."""
NUMBERS = {
    "docagent/trajectories/trained": "trajectories",
    "docagent/turns": "turns of a trajectory",
    "global_seqlen/mean": "tokens of a rank's rows",
    "docagent/prefill_ratio": "prompt tokens computed, divided by new ones",
    "docagent/workers/event_loop_lag_s": "longest lag of an event loop, s",
    "docagent/workers/cache_waiting": "trajectories that waited for room in a KV cache",
    "docagent/workers/image_cache_bytes": "bytes of images in Ray's store",
}
"""Other numbers of a step, by their names in the run's metrics."""
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The result of a rehearsal.

    Args:
        recipe: the recipe's name.
        settings: the settings of the rehearsal.
        start_s: seconds until the first step began.
        steps: the metrics of each step.
        memory: the memory of each part of the run.
        loopback_bytes: the bytes that processes sent to each other, over the whole run.
        computed: the time and memory of the recipe on its own GPUs, in Markdown.
    """

    recipe: str
    settings: Mapping[str, Any]
    start_s: float
    steps: Sequence[Mapping[str, float]]
    memory: Mapping[str, PartMemory] = field(default_factory=dict)
    loopback_bytes: int = 0
    computed: str = ""

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"# Rehearsal of {self.recipe}\n"
        named = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        yield f"{named}. The start took {self.start_s:.0f} s.\n"
        head = "".join(f" step {number} |" for number in range(1, len(self.steps) + 1))
        yield f"| seconds |{head}"
        yield f"|---|{'---:|' * len(self.steps)}"
        yield from self._rows("timing_s/", TIMES, "{:.1f}")
        yield ""
        yield f"| share of the trajectories' time |{head}"
        yield f"|---|{'---:|' * len(self.steps)}"
        yield from self._rows("docagent/time_share/", SHARES, "{:.2f}")
        yield ""
        yield f"| |{head}"
        yield f"|---|{'---:|' * len(self.steps)}"
        yield from self._rows("", NUMBERS, "{:,.2f}")
        yield ""
        yield "| memory, GiB | processes | together | largest |"
        yield "|---|---:|---:|---:|"
        for part, each in self.memory.items():
            yield (
                f"| {part} | {each.processes} | {each.together / GIB:.2f} | "
                f"{each.largest / GIB:.2f} |"
            )
        yield f"\n{self.loopback_bytes / GIB:.2f} GiB went over the loopback device. {self.waits()}"
        if self.computed:
            yield f"\n## On the recipe's GPUs, computed\n\n{self.computed}"

    def _rows(self, prefix: str, names: Mapping[str, str], form: str) -> Iterator[str]:
        for name, text in names.items():
            found = [step.get(prefix + name) for step in self.steps]
            if any(value is not None for value in found):
                cells = "".join(f" {form.format(v) if v is not None else ''} |" for v in found)
                yield f"| {text} |{cells}"

    def waits(self) -> str:
        """Return a sentence on the part of the last step that took longest."""
        if not self.steps:
            return "No step was finished."
        last = self.steps[-1]
        parts = {text: last.get(f"timing_s/{name}", 0.0) for name, text in TIMES.items()}
        whole = parts.pop(TIMES["step"]) or 1.0
        longest = max(parts, key=lambda text: parts[text])
        shares = {
            text: last.get(f"docagent/time_share/{name}", 0.0) for name, text in SHARES.items()
        }
        most = max(shares, key=lambda text: shares[text])
        return (
            f"The longest part of the last step is the {longest} ({parts[longest] / whole:.0%}); "
            f"trajectories wait most for {most} ({shares[most]:.0%} of their time)."
        )

"""Stored runs, and repeating their trajectories word for word in the environments of another
configuration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.file_status import require_whole
from docagent_rl.checkpoints.step_files import step_files
from docagent_rl.checks.environment import resolve_reward_file
from docagent_rl.endpoints.retrying import run_jobs
from docagent_rl.lab.agents.relocation import KEY as WORKSPACE
from docagent_rl.lab.agents.relocation import move_workspace, relocate
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.agents.texts import play_texts, whole_turn
from docagent_rl.rewards.custom.config import KEY, RewardFunctionConfig
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.samples.sample import Sample

_HYDRA = Path("hydra") / "config.yaml"
_FREE = ("docagent.env.", "docagent.roles.", "docagent.advantage.options.", f"{KEY}.reward_kwargs.")
"""Keys below these prefixes are checked by the code that reads them."""
_ABSENT = object()
_KEPT = (
    "token_ids", "log_probs", "trainer_log_probs", "observation_tokens", "dropped",
    "completion_tokens",
    "row", "seconds",
)  # fmt: skip
"""Fields of a turn that are copied from the stored trajectory."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The folder of a training run or of an evaluation."""

    path: Path
    config: DictConfig
    files: dict[str, Path]
    """Trajectory files by name: `train/<step>`, `val/<step>` or `trajectories`."""

    @classmethod
    def open(cls, path: Path) -> StoredRun:
        """Read the folder of a run.

        Raises:
            UserError: there is no run or no trajectory, or the configuration is damaged.
        """
        if (path / _HYDRA).is_file():
            require_whole([path / _HYDRA])
            config = OmegaConf.load(path / _HYDRA)
            found = step_files(path / "trajectories", ".jsonl")
            files = {f"{each.split}/{each.step}": each.path for each in found}
        else:
            folder = RunFolder(path)
            # the manifest of an evaluation stores the part of the configuration that it depends on
            kept = folder.manifest().get("config")
            if not isinstance(kept, dict) or not isinstance(kept.get("docagent"), dict):
                raise UserError(
                    f"{folder.manifest_file} does not contain the configuration of its "
                    "environments, so its trajectories cannot be rescored"
                )
            section = {**kept["docagent"], "run_dir": str(folder.path)}
            config = OmegaConf.create({"docagent": section, "algorithm": {"adv_estimator": None}})
            files = (
                {"trajectories": folder.trajectories_file}
                if folder.trajectories_file.is_file()
                else {}
            )
        if not files:
            raise UserError(f"{path} contains no trajectories")
        if not isinstance(config, DictConfig) or "docagent" not in config:
            raise UserError(f"{path}: its configuration has no section `docagent`")
        relocate(config, path)
        _name_by_verls_keys(config)
        return cls(path, config, files)

    def chosen(self, steps: Sequence[int], *, validation: bool) -> dict[str, Path]:
        """Return the files of some training or validation steps; with no steps given, all files.

        Raises:
            UserError: a step was not stored, or its file is damaged.
        """
        if "trajectories" in self.files:
            require_whole(self.files.values())
            return self.files
        kind = "val" if validation else "train"
        found = {name: path for name, path in self.files.items() if name.startswith(f"{kind}/")}
        wanted = {f"{kind}/{step}" for step in steps} or found.keys()
        if missing := sorted(wanted - found.keys()):
            there = ", ".join(name.partition("/")[2] for name in found) or "none"
            raise UserError(
                f"{self.path}: no trajectories of step {missing[0]}; stored steps: {there}"
            )
        chosen = {name: path for name, path in found.items() if name in wanted}
        require_whole(chosen.values())
        return chosen

    def changed(self, overrides: Sequence[str]) -> DictConfig:
        """Return the configuration with other values, given as `KEY=VALUE` of existing keys.

        Raises:
            UserError: a key does not exist, or a value cannot be parsed.
        """
        config = self.config.copy()
        for override in overrides:
            key, equals, _ = override.lstrip("+").partition("=")
            if not equals:
                raise UserError(f"{override!r}: write it as KEY=VALUE")
            if (
                not key.startswith(_FREE)
                and OmegaConf.select(config, key, default=_ABSENT) is _ABSENT
            ):
                raise UserError(f"{key}: the configuration of {self.path} has no such key")
            try:
                value = OmegaConf.select(OmegaConf.from_dotlist([override.lstrip("+")]), key)
                if key == WORKSPACE:
                    move_workspace(config, str(value))
                else:
                    OmegaConf.update(config, key, value, merge=True, force_add=True)
            except (OmegaConfBaseException, ValueError) as error:
                raise UserError(f"{override}: {error}") from error
        resolve_reward_file(config)
        return config


def _name_by_verls_keys(config: DictConfig) -> None:
    """Add verl's keys for the reward function: an evaluation stores the section `docagent` only."""
    if OmegaConf.select(config, KEY) is not None:
        return
    section = OmegaConf.select(config, "docagent.reward_function") or {}
    known = RewardFunctionConfig.model_validate(OmegaConf.to_container(OmegaConf.create(section)))
    named = known.model_dump(mode="json", include={"path", "name", "reward_kwargs"})
    by_reference = {name: f"${{{KEY}.{name}}}" for name in named}
    section = {**known.model_dump(mode="json"), **by_reference}
    OmegaConf.update(config, KEY, named, force_add=True)
    OmegaConf.update(config, "docagent.reward_function", section, force_add=True)


@dataclass(frozen=True, slots=True)
class Rescored:
    """A trajectory before and after: the same texts, ids and log-probabilities with different
    rewards.
    """

    before: Trajectory
    after: Trajectory
    same: bool
    """True if the observations and the end are the same."""


async def rescore(stored: Trajectory, resources: EnvResources) -> Rescored:
    """Repeat a trajectory in other environments.

    Reward terms on tokens inside a turn are assigned to the turn, since there is no tokenizer.

    Raises:
        UserError: the sample can no longer be played.
        InfrastructureError: a service failed, or the user's reward function did.
    """
    new = Trajectory(
        uid=stored.uid,
        number=stored.number,
        step=stored.step,
        split=stored.split,
        sample=stored.sample,
        system=resources.system.name,
        prompt_tokens=stored.prompt_tokens,
        response_tokens=stored.response_tokens,
    )

    async def write(so_far: Trajectory) -> TrajectoryTurn | None:
        said = stored.turns[len(so_far.turns) :]
        if not said:
            return None
        # keep the token ids: a reward function may use how many were sampled
        turn = whole_turn(said[0].text, said[0].stop)
        return replace(
            turn, token_ids=said[0].token_ids, completion_tokens=said[0].completion_tokens
        )

    env = resources.environment(validate=stored.split == "val")
    await play_texts(env, Sample.from_dict(stored.sample), write, new)
    same = _shown(stored) == _shown(new) and stored.end == new.end
    new.turns = [
        replace(turn, **{name: getattr(old, name) for name in _KEPT})
        for turn, old in zip(new.turns, stored.turns, strict=False)
    ]
    return Rescored(stored, new, same)


def _shown(trajectory: Trajectory) -> list[str]:
    """Return the prompt and the observation after each turn as JSON, without dropped ones."""
    shown = [
        trajectory.prompt,
        *(turn.observation for turn in trajectory.turns if not turn.dropped),
    ]
    return [json.dumps(each, sort_keys=True) for each in shown]


async def rescore_all(
    trajectories: Iterable[Trajectory],
    resources: EnvResources,
    *,
    at_a_time: int,
    done: Callable[[], None] | None = None,
) -> list[Rescored]:
    """Repeat many trajectories; return them in their order.

    Raises:
        UserError: a trajectory can no longer be played; the message names it.
        InfrastructureError: a service failed.
    """
    found: dict[int, Rescored] = {}

    async def one(job: tuple[int, Trajectory]) -> None:
        place, stored = job
        try:
            found[place] = await rescore(stored, resources)
        except UserError as error:
            name = f"trajectory {stored.number} of {stored.question_id!r}, step {stored.step}"
            raise UserError(f"{name}: {error}") from error

    await run_jobs(enumerate(trajectories), one, at_once=at_a_time, done=done)
    return [found[place] for place in sorted(found)]

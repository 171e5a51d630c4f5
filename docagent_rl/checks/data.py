"""Checks of data files, and of their questions against the system that is to play them."""

from collections.abc import Iterator, Sequence

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.text import tell
from docagent_rl.checks.check import PlannedRun
from docagent_rl.config import DocAgentConfig, UnplayablePolicy, data_files
from docagent_rl.rollout.chat import template_kwargs
from docagent_rl.rollout.playability import listed, open_all
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.samples.parquet import AGENT_NAME, read_table
from docagent_rl.samples.sample import Sample
from docagent_rl.samples.validation import validate_file
from docagent_rl.training.settings.models import load_tokenizer

KEYS = ("train_files", "val_files")
_MANY = 1000
"""Questions that take a while."""
AGENT_LOOPS = "actor_rollout_ref.rollout.agent.agent_loop_config_path"


def check_files(run: PlannedRun) -> Iterator[str]:
    """Open store and indexes, and see that the data files are there, valid and about its
    documents.
    """
    from docagent_rl.rollout.env_resources import open_retrievers, open_shown_store

    store = run.section.open_store()
    open_shown_store(run.section, store)
    open_retrievers(run.section, store, running=False)
    for key in KEYS:
        for file in data_files(run.config, key):
            if not file.is_file():
                yield (
                    f"data.{key}: {file} does not exist; `docagent-rl data convert` writes such "
                    "files"
                )
                continue
            if problems := validate_file(file, store=store).problems:
                yield listed(problems)
                continue
            unknown = set(read_table(file, columns=["agent_name"])["agent_name"].to_pylist()) - {
                AGENT_NAME
            }
            if unknown and OmegaConf.select(run.config, AGENT_LOOPS) is None:
                yield (
                    f"{file}: agent_name {min(map(str, unknown))!r} is not {AGENT_NAME}; other "
                    "loops are "
                    f"listed in {AGENT_LOOPS}"
                )


def check_questions(run: PlannedRun) -> Iterator[str]:
    """Find batches above the questions: verl drops an incomplete last batch of training."""
    _, used, rows = run_questions(run.config, "train_files")
    size = run.config.data.train_batch_size
    if size > used:
        yield (
            f"data.train_batch_size={size} is above the {used} questions, of {rows} in "
            "data.train_files, "
            "that data.train_max_samples leaves: verl drops an incomplete batch, so there would be "
            "no step. "
            f"Set it to {used} or less, and actor_rollout_ref.actor.ppo_mini_batch_size with it, "
            "or add some"
        )


def run_questions(config: DictConfig, key: str) -> tuple[list[Sample], int, int]:
    """Read the questions of `train_files` or `val_files`, which exist and are valid.

    Returns:
        Those that may be played, without those of other agent loops; the number that verl takes
        (`data.train_max_samples`, `data.val_max_samples`), and that in the files.
    """
    rows: list[tuple[str, str]] = []
    for file in data_files(config, key):
        columns = read_table(file, columns=["agent_name", "sample"]).to_pydict()
        rows += zip(columns["agent_name"], columns["sample"], strict=True)
    most = OmegaConf.select(config, f"data.{key.removesuffix('_files')}_max_samples") or -1
    used = min(most, len(rows)) if most > 0 else len(rows)
    # verl draws them at random when it shuffles
    drawn = rows if OmegaConf.select(config, "data.shuffle") else rows[:used]
    return [Sample.from_json(text) for agent, text in drawn if agent == AGENT_NAME], used, len(rows)


def check_openings(config: DictConfig, parsed: DocAgentConfig) -> Iterator[str]:
    """Make the prompt of every question, of files that are valid, and name those that cannot be
    played.

    They are problems where they train and `docagent.rollout.unplayable` is `refuse`, or where a
    file has no others; else they are reported on standard error.
    """
    limit = int(config.data.max_prompt_length)
    promised = parsed.rollout.prompt_tokens
    if promised is not None and promised > limit:
        yield (
            f"docagent.rollout.prompt_tokens={promised} is above data.max_prompt_length={limit}: "
            "environments would fill prompts that the rollout refuses"
        )
        return
    resources = TrajectoryResources(
        parsed, *load_tokenizer(config), template_kwargs(config), running=False
    )
    for key in KEYS:
        yield from _file_problems(key, run_questions(config, key)[0], resources, limit)


def _file_problems(
    key: str, questions: Sequence[Sample], resources: TrajectoryResources, limit: int
) -> Iterator[str]:
    name = f"data.{key}"
    count = len(questions)
    validate = key == "val_files"
    if count > _MANY:
        tell(f"{name}: making {count} prompts")
    found = open_all(questions, resources, limit=limit, validate=validate)
    if found.adapted:
        ways = [
            f"{how}: {len(names)}, e.g. {min(names)}"
            for how, names in sorted(found.adapted.items())
        ]
        tell(
            f"{name}: documents whose prompt was made to fit {limit} tokens:\n  "
            + "\n  ".join(ways)
        )
    if not found.unplayable:
        return
    lines = [
        f"document {e.doc_id!r}, question {e.question_id!r}: {e.reason}" for e in found.unplayable
    ]
    number = len(found.unplayable)
    message = (
        f"{name}: {number} of {found.questions} questions cannot be played by "
        f"{resources.system.name}\n  "
        f"{listed(lines)}"
    )
    if number == count:
        yield message
    elif validate:
        tell(f"{message}\n  they count as wrong and are reported beside the score")
    elif resources.config.rollout.unplayable is UnplayablePolicy.MASK:
        tell(f"{message}\n  their trajectories are masked and counted")
    else:
        yield (
            f"{message}\n  drop them, or set docagent.rollout.unplayable=mask to train on the "
            "others"
        )

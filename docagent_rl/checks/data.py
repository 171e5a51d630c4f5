"""Checks of data files, and of their questions against the system that will play them."""

from collections.abc import Iterator, Sequence

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.text import tell
from docagent_rl.checks.check import PlannedRun
from docagent_rl.checks.named_code import AGENT_LOOPS
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
"""Above this number of questions, a message says that checking them takes a while."""


def check_files(run: PlannedRun) -> Iterator[str]:
    """Open the store and the indexes; check that data files exist, are valid and match the
    store.
    """
    from docagent_rl.rollout.env_resources import open_retrievers, open_shown_store

    store = run.section.open_store()
    open_shown_store(run.section, store)
    open_retrievers(run.section, store, running=False)
    for key in KEYS:
        for file in data_files(run.config, key):
            if not file.is_file():
                yield (
                    f"data.{key}: {file} does not exist; create it with `docagent-rl data convert`"
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
                    f"{file}: agent_name {min(map(str, unknown))!r} is not {AGENT_NAME}; list "
                    f"other agent loops in {AGENT_LOOPS}"
                )


def check_questions(run: PlannedRun) -> Iterator[str]:
    """Find batches larger than the number of questions: verl drops an incomplete last batch."""
    _, used, rows = run_questions(run.config, "train_files")
    size = run.config.data.train_batch_size
    if size > used:
        yield (
            f"data.train_batch_size={size} is larger than the {used} questions that the run uses "
            f"({rows} in data.train_files, limited by data.train_max_samples). verl drops "
            f"incomplete batches, so there would be no step. Set it to {used} or less, and with it "
            "actor_rollout_ref.actor.ppo_mini_batch_size, or add questions"
        )


def run_questions(config: DictConfig, key: str) -> tuple[list[Sample], int, int]:
    """Read the questions of `train_files` or `val_files`, which must exist and be valid.

    Returns:
        The questions that may be played, without those of other agent loops; the number of
        questions that verl uses (`data.train_max_samples`, `data.val_max_samples`); and the number
        in the files.
    """
    rows: list[tuple[str, str]] = []
    for file in data_files(config, key):
        columns = read_table(file, columns=["agent_name", "sample"]).to_pydict()
        rows += zip(columns["agent_name"], columns["sample"], strict=True)
    most = OmegaConf.select(config, f"data.{key.removesuffix('_files')}_max_samples") or -1
    used = min(most, len(rows)) if most > 0 else len(rows)
    # with shuffling verl draws them at random, so that any question may be played
    drawn = rows if OmegaConf.select(config, "data.shuffle") else rows[:used]
    return [Sample.from_json(text) for agent, text in drawn if agent == AGENT_NAME], used, len(rows)


def check_openings(config: DictConfig, parsed: DocAgentConfig) -> Iterator[str]:
    """Make the prompt of every question in valid files, and name the questions that are unplayable.

    They are problems for training if `docagent.rollout.unplayable` is `refuse`, and if a file has
    no playable question; otherwise they are only reported on standard error.
    """
    limit = int(config.data.max_prompt_length)
    promised = parsed.rollout.prompt_tokens
    if promised is not None and promised > limit:
        yield (
            f"docagent.rollout.prompt_tokens={promised} is larger than "
            f"data.max_prompt_length={limit}: the rollout would refuse prompts that environments "
            "make"
        )
        return
    resources = TrajectoryResources(
        parsed, *load_tokenizer(config), template_kwargs(config), running=False
    )
    undrawn: dict[int, set[str]] = {}
    for key in KEYS:
        yield from _file_problems(key, run_questions(config, key)[0], resources, limit, undrawn)
    if undrawn:
        cells = " ".join(f"--thumbnails {cell}" for cell in sorted(undrawn))
        tell(
            f"{sum(map(len, undrawn.values()))} thumbnails are not drawn yet, so that the first "
            "trajectories of their documents wait for them; `docagent-rl ingest FOLDER --store "
            f"{parsed.store} {cells}` draws them before the run"
        )


def _file_problems(
    key: str,
    questions: Sequence[Sample],
    resources: TrajectoryResources,
    limit: int,
    undrawn: dict[int, set[str]],
) -> Iterator[str]:
    """Yield the problems of a file, and add the thumbnails that its prompts need to `undrawn`."""
    name = f"data.{key}"
    count = len(questions)
    validate = key == "val_files"
    if count > _MANY:
        tell(f"{name}: making {count} prompts")
    found = open_all(questions, resources, limit=limit, validate=validate)
    for cell, keys in found.undrawn.items():
        undrawn.setdefault(cell, set()).update(keys)
    if found.adapted:
        ways = [
            f"{how}: {len(names)}, e.g. {min(names)}"
            for how, names in sorted(found.adapted.items())
        ]
        tell(
            f"{name}: documents whose prompts were shortened to {limit} tokens:\n  "
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
        tell(f"{message}\n  they count as wrong, and are reported next to the score")
    elif resources.config.rollout.unplayable is UnplayablePolicy.MASK:
        tell(f"{message}\n  their trajectories are masked and counted")
    else:
        yield (
            f"{message}\n  remove them, or set docagent.rollout.unplayable=mask to train on the "
            "others"
        )

"""`docagent-rl reproduce`: run all stages of a paper's chain, from downloads to its table."""

import shlex
from pathlib import Path

import typer

from docagent_rl.base.errors import UserError
from docagent_rl.commands.options import argument, option
from docagent_rl.lab.papers.data_stages import data_stages
from docagent_rl.lab.papers.machine import Machine, count_gpus
from docagent_rl.lab.papers.manifest import read_paper
from docagent_rl.lab.papers.reproduction import reproduction, services_without_gpu
from docagent_rl.lab.papers.setting import Beginning, Setting
from docagent_rl.lab.stages.plan import plan_text


def reproduce_command(
    system: str = argument(..., "alden, doc_v_star, mm_doc_r1, unidoc_rl or vrag_rl."),
    beginning: Beginning = option(
        Beginning.SCRATCH,
        "Where to begin: with the authors' weights, a fine-tuned model of yours, or from scratch.",
        "--from",
    ),
    workspace: Path | None = option(
        None,
        "Folder for everything, of its own; default: reproduce_SYSTEM. The same command resumes "
        "the chain.",
    ),
    stage: list[str] | None = option(None, "Run only this stage; may be repeated."),
    corpus: bool = option(
        False,
        "Run only the stages of the data: all downloads become one store, with questions and "
        "indexes.",
        "--corpus",
    ),
    dry_run: bool = option(
        False, "Print the commands with hours, disk space and cost, and run none.", "--dry-run"
    ),
    recipe: str | None = option(None, "Recipe of another model of the paper."),
    literal: bool = option(
        False,
        "Use the paper's printed values even where the recipe departs from them for a reason.",
        "--literal",
    ),
    prompts: Path | None = option(
        None, "Prompt file with the authors' wording; see docs/extending.md."
    ),
    gpus: int | None = option(None, "Number of GPUs; default: all of this machine.", min=0),
    gpu_memory: str | None = option(
        None, "Memory of one GPU, as for `recipes budget`; default: the paper's card."
    ),
    price: float | None = option(None, "Price of a GPU hour, for --dry-run.", min=0),
    teacher_url: str = option(
        "http://127.0.0.1:8003/v1",
        "Address of the teacher's OpenAI-compatible API, for --from scratch.",
    ),
    teacher: str | None = option(
        None, "Name of the teacher at that address; default: the paper's teacher."
    ),
    miniature: bool = option(
        False,
        "Run the whole chain on a CPU, with synthetic data, a tiny model and two steps.",
        "--miniature",
    ),
) -> None:
    """Run a paper's chain: downloads, index, fine-tuning, RL, evaluations, report.

    Finished stages are skipped, so the same command resumes after an interruption. Each stage is
    printed before it runs. If the hub requires a licence to be accepted, or a file has to come from
    elsewhere, the chain stops and says what to do. docs/papers/ has a page on each paper, which
    says what can be compared and what is unknown.

    Example: docagent-rl reproduce vrag_rl --from weights --prompts theirs.yaml --workspace W
    """
    manifest = read_paper(system)
    machine = Machine(count_gpus() if gpus is None else gpus, gpu_memory or manifest.card)
    if dry_run and gpus is None and machine.gpus == 0:
        machine = Machine(_PLANNED_GPUS, machine.card)
    setting = Setting(
        manifest,
        manifest.model(recipe),
        beginning,
        machine,
        workspace=(workspace or Path(f"reproduce_{system}")).absolute(),
        miniature=miniature,
        literal=literal,
        prompts=None if prompts is None else prompts.absolute(),
        teacher_url=teacher_url,
        teacher=teacher,
    )
    again = _again(setting, gpus, gpu_memory, teacher_url, teacher)
    chain = reproduction(setting, f"{again} --corpus" if corpus else again)
    if corpus and stage:
        raise UserError("--corpus names its stages itself: leave out --stage")
    chosen = [each.name for each in data_stages(setting)] if corpus else stage or ()
    if dry_run:
        typer.echo(plan_text(chain, chosen, price), nl=False)
        typer.echo(_HOURS)
        for service in services_without_gpu(setting, chain):
            typer.echo(f"no GPU left for {service.name}: {service.sentence}")
        if setting.placement.refusal is not None:
            typer.echo(setting.placement.refusal)
        _warn_of_prompts(setting)
        return
    without_gpu = [] if corpus else services_without_gpu(setting, chain)
    if missing := [service.sentence for service in without_gpu if not service.optional]:
        raise UserError("\n  ".join(["no GPU is left for these services:", *missing]))
    if machine.gpus == 0 and not miniature:
        raise UserError(
            "this machine has no GPU: --dry-run prints the chain, --miniature runs a small version"
        )
    if setting.placement.refusal is not None:
        raise UserError(setting.placement.refusal)
    _warn_of_prompts(setting)
    chain.run(chosen)


_PLANNED_GPUS = 8
"""Number of GPUs to plan for on a machine without any."""
_HOURS = (
    "Hours are computed, not measured: every row counts at its maximum length, at an assumed share "
    "of the card's peak."
)


def _warn_of_prompts(setting: Setting) -> None:
    if setting.beginning is Beginning.WEIGHTS and setting.prompts is None:
        typer.echo(
            "without --prompts, the weights play with our wording instead of that of their "
            "training (docs/extending.md): their numbers cannot be compared with the paper's",
            err=True,
        )


def _again(
    setting: Setting, gpus: int | None, card: str | None, teacher_url: str, teacher: str | None
) -> str:
    """Return the command that resumes a chain."""
    words = ["docagent-rl", "reproduce", setting.manifest.system, "--from", setting.beginning]
    words += ["--workspace", str(setting.workspace)]
    if setting.model is not setting.manifest.models[0]:
        words += ["--recipe", setting.model.recipe]
    given = {
        "--prompts": setting.prompts,
        "--gpus": gpus,
        "--gpu-memory": card,
        "--teacher": teacher,
        "--teacher-url": None if teacher is None else teacher_url,
    }
    for name, value in given.items():
        if value is not None:
            words += [name, str(value)]
    words += [name for name in ("--literal", "--miniature") if getattr(setting, name[2:])]
    return shlex.join(words)

"""`docagent-rl reproduce`: all stages of a paper's chain, from downloads to its table."""

import shlex
from pathlib import Path

import typer

from docagent_rl.base.errors import UserError
from docagent_rl.commands.options import argument, option
from docagent_rl.lab.papers.machine import Machine, count_gpus
from docagent_rl.lab.papers.manifest import read_paper
from docagent_rl.lab.papers.reproduction import reproduction, required, unplaced
from docagent_rl.lab.papers.setting import Beginning, Setting
from docagent_rl.lab.stages.plan import plan_text


def reproduce_command(
    system: str = argument(..., "alden, doc_v_star, mm_doc_r1, unidoc_rl or vrag_rl."),
    beginning: Beginning = option(
        Beginning.SCRATCH,
        "The authors' weights, a fine-tuned model of yours, or nothing.",
        "--from",
    ),
    workspace: Path = option(Path("workspace"), "Folder for everything; the same resumes."),
    stage: list[str] | None = option(None, "Run this stage alone; may be repeated."),
    dry_run: bool = option(
        False, "Print the commands with hours, disk and money, and run none.", "--dry-run"
    ),
    recipe: str | None = option(None, "Another model of the paper, by its recipe."),
    literal: bool = option(
        False, "Set what the paper prints where the recipe departs for a reason.", "--literal"
    ),
    prompts: Path | None = option(
        None, "The authors' wording, a prompt file as docs/prompts.md says."
    ),
    gpus: int | None = option(None, "Number of GPUs; default: those of this machine.", min=0),
    gpu_memory: str | None = option(
        None, "Card, as for `recipes budget`; default: the paper's own."
    ),
    price: float | None = option(None, "Price of a GPU hour, for --dry-run.", min=0),
    teacher_url: str = option(
        "http://127.0.0.1:8003/v1", "OpenAI-compatible API of the teacher, with --from scratch."
    ),
    teacher: str | None = option(None, "Name of the teacher at that address; default: the paper's"),
    miniature: bool = option(
        False, "Run the whole chain on a CPU: made data, a tiny model, two steps.", "--miniature"
    ),
) -> None:
    """Run a paper's chain: downloads, index, fine-tuning, RL, evaluations, report.

    Stages that are done are skipped, so the same command goes on after an interruption; each is
    printed before it runs. Where the hub wants a licence accepted, or a file lies elsewhere, the
    chain stops and says what to do. docs/papers/ has a page on each paper, with what can be
    compared and what is not known.

    Example: docagent-rl reproduce vrag_rl --from weights --prompts theirs.yaml --workspace W
    """
    manifest = read_paper(system)
    machine = Machine(count_gpus() if gpus is None else gpus, gpu_memory or manifest.card)
    if dry_run and gpus is None and machine.gpus == 0:
        machine = Machine(_OF_PAPERS, machine.card)
    setting = Setting(
        manifest,
        manifest.model(recipe),
        beginning,
        workspace.absolute(),
        machine,
        miniature=miniature,
        literal=literal,
        prompts=None if prompts is None else prompts.absolute(),
        teacher_url=teacher_url,
        teacher=teacher,
    )
    chain = reproduction(setting, _again(setting, gpus, gpu_memory, teacher_url, teacher))
    if dry_run:
        typer.echo(plan_text(chain, stage or (), price), nl=False)
        typer.echo(_HOURS)
        for name, sentence in unplaced(setting, chain).items():
            typer.echo(f"not placed, {name}: {sentence}")
        _warn_of_prompts(setting)
        return
    if missing := required(setting, chain):
        raise UserError("\n  ".join(["services without a place:", *missing]))
    if machine.gpus == 0 and not miniature:
        raise UserError("no GPU is here: --dry-run prints the chain, --miniature runs it small")
    _warn_of_prompts(setting)
    chain.run(stage or ())


_OF_PAPERS = 8
"""GPUs of a plan that is made where there are none."""
_HOURS = (
    "Hours are computed, not measured: every row at its longest, at assumed shares of the card's "
    "peak."
)


def _warn_of_prompts(setting: Setting) -> None:
    if setting.beginning is Beginning.WEIGHTS and setting.prompts is None:
        typer.echo(
            "without --prompts the weights play by our wording, not by the one that they were "
            "trained with (docs/prompts.md): their numbers do not compare with the paper's",
            err=True,
        )


def _again(
    setting: Setting, gpus: int | None, card: str | None, teacher_url: str, teacher: str | None
) -> str:
    """Return the command that goes on with a chain."""
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

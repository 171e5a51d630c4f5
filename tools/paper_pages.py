"""Write docs/papers/ from the papers' manifests and the recipes' provenance.

python -m tools.paper_pages [--check] [--sizes]

`--sizes` also computes the recipes' budgets anew (`recipes/papers/shared/sizes.yaml`), which takes
a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from docagent_rl.checks.provenance import ProvenanceSource, read_provenance
from docagent_rl.checks.recipe_list import ablation_names, ablation_row, ablation_summary
from docagent_rl.lab.papers.estimates import SIZES
from docagent_rl.lab.papers.machine import Machine
from docagent_rl.lab.papers.manifest import (
    FOLDER,
    SHARED,
    UNKNOWN,
    PaperManifest,
    PaperModel,
    paper_systems,
    read_paper,
)
from docagent_rl.lab.papers.reproduction import reproduction
from docagent_rl.lab.papers.setting import Beginning, Setting
from docagent_rl.lab.stages.stage import ChainStage, Estimate
from tools.recipe_openings import shortened

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "papers"
GPUS = 8
_NO_ROW = "not a row of the paper"
_RESUMES = """
Finished stages are skipped; a stage whose command or input has changed runs again. After a kill or a failure, the same
command continues. Where you have to accept a licence or get a file by hand, the chain stops and says what to do.
`--stage NAME` runs one stage, `--corpus` those of the data: all downloads in one store, with questions and indexes.
Logs and markers are in `$W/.stages`.
"""
_KINDS = {
    ProvenanceSource.DEPARTS: "departs",
    ProvenanceSource.RELEASE: "silent, as released",
    ProvenanceSource.SILENT: "silent, chosen here",
    ProvenanceSource.RELEASED: "with `variant=released`",
    ProvenanceSource.UNREAD: "rewarded without a document",
}

app = typer.Typer(add_completion=False)


@app.command()
def main(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 if a page is stale.")
    ] = False,
    sizes: Annotated[bool, typer.Option("--sizes", help="Compute sizes.yaml anew.")] = False,
) -> None:
    """Write the page of every paper, or report which pages are stale."""
    if sizes:
        from tools.paper_sizes import sizes_text

        file = ROOT / "recipes" / FOLDER / SHARED / SIZES
        file.write_text(sizes_text(), encoding="utf-8")
    stale = []
    for system in paper_systems():
        file = DOCS / f"{system}.md"
        page = paper_page(read_paper(system))
        if not file.is_file() or file.read_text(encoding="utf-8") != page:
            stale.append(system)
            if not check:
                DOCS.mkdir(exist_ok=True)
                file.write_text(page, encoding="utf-8")
    if check and stale:
        pages = ", ".join(f"docs/papers/{system}.md" for system in stale)
        typer.echo(f"stale: {pages}: run python -m tools.paper_pages", err=True)
        raise typer.Exit(1)


def paper_page(manifest: PaperManifest) -> str:
    """Return the page of a paper."""
    parts = [
        f"# {manifest.title} ([arXiv {manifest.arxiv}](https://arxiv.org/abs/{manifest.arxiv}))\n",
        f"*For whoever wants to reproduce {manifest.title}: the commands, data, hours and disk, "
        "which numbers can be compared with the paper's, and what differs here.*\n",
        f"This page is written by `python -m tools.paper_pages` from "
        f"`recipes/papers/{manifest.system}.yaml` and `recipes/provenance/`. No number from the "
        "paper has been reproduced here.\n",
        f"**The paper says.** {manifest.claims}\n",
        f"**Released.** {manifest.code}.\n",
        f"**Hardware of the paper.** {manifest.hardware}.\n",
        "## Commands\n",
        _commands(manifest),
        *_hours(manifest),
        "## Data\n",
        _downloads(manifest),
        "## What can be compared\n",
        _comparisons(manifest),
        "## Ablations\n",
        *_ablations(manifest),
        "## Literal settings\n",
        _literal(manifest),
        "## What is not known\n",
        "".join(f"- {each}\n" for each in manifest.unknown),
        "## Settings here\n",
        _settings(manifest.models[0].recipe),
    ]
    return "\n".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], right: int = 0) -> str:
    """Return a Markdown table whose last `right` columns are right-aligned, for numbers."""
    ends = ["---"] * (len(head) - right) + ["---:"] * right
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in [list(head), ends, *cells])


def _commands(manifest: PaperManifest) -> str:
    name = f"docagent-rl reproduce {manifest.system} --workspace $W"
    lines = [f"{name} --dry-run                # every command, with hours, disk and money"]
    if any(model.weights for model in manifest.models):
        chosen = "--from weights --prompts theirs.yaml"
        lines.append(f"{name} {chosen} --gpus 1   # the authors' weights")
    if manifest.models[0].sft:
        lines.append(f"{name} --from sft               # RL, from your own fine-tuned model")
    lines.append(f"{name} --from scratch           # everything")
    if _setting(manifest, manifest.models[0], Beginning.SCRATCH).has_literal:
        lines.append(f"{name} --literal                # with all printed settings")
    lines.append(
        f"{name} --miniature              # the chain on a CPU: synthetic data, tiny model"
    )
    others = ", ".join(f"`--recipe {model.recipe}`" for model in manifest.models[1:])
    more = f"\nOther models of the paper: {others}.\n" if others else ""
    return "```bash\n" + "\n".join(lines) + "\n```\n" + _RESUMES + more


def _setting(manifest: PaperManifest, model: PaperModel, beginning: Beginning) -> Setting:
    machine = Machine(GPUS, manifest.card)
    return Setting(manifest, model, beginning, machine, workspace=Path("/W"))


def _hours(manifest: PaperManifest) -> Iterator[str]:
    yield (
        f"What the stages take on {GPUS} GPUs of the paper's kind (`{manifest.card}`): computed, not "
        "measured. All rows count as the longest; passes over whole rows are assumed to run at 0.3 of "
        "the card's peak, sampling at 0.05. `--dry-run` prints each formula. Stages that take minutes "
        "and no GPU are left out.\n"
    )
    for beginning in Beginning:
        model = next((m for m in manifest.models if m.weights), None)
        model = model if beginning is Beginning.WEIGHTS else manifest.models[0]
        if model is None or (beginning is Beginning.SFT and not manifest.models[0].sft):
            continue
        chain = reproduction(_setting(manifest, model, beginning), "")
        rows = [row for stage in chain.stages if (row := _stage_row(stage))]
        yield f"`--from {beginning}`, `{model.recipe}`:\n"
        yield table(("stage", "what", "GPU hours", "GiB of disk"), rows, right=2)


def _stage_row(stage: ChainStage) -> tuple[str, str, str, str] | None:
    takes = stage.estimate
    if takes == Estimate() or (stage.command and stage.name.startswith(("unpack", "import"))):
        return None
    what = stage.title if stage.command else f"{stage.title}: by hand"
    return f"`{stage.name}`", what, _number(takes.gpu_hours), _number(takes.disk_gib)


def _number(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def _downloads(manifest: PaperManifest) -> str:
    rows = []
    for name, each in manifest.downloads.items():
        where = f"`{each.hub}`" if each.hub else "by hand"
        if each.by_hand and each.hub:
            where += ", and by hand"
        counts = ", ".join(
            f"{split} {rows:,}" if isinstance(rows, int) else f"{split} {rows}"
            for split, rows in each.questions.items()
            if split != "all" or len(each.questions) == 1
        )
        gated = "yes" if each.gated else ""
        sums = each.sha256 if each.sha256 == UNKNOWN else f"{len(each.sha256)} files"
        rows.append((name, where, each.revision, gated, counts, sums, each.license))
    head = ("download", "from", "revision", "gated", "questions", "SHA-256", "licence")
    uses = ", ".join(
        f"{name} ({each.use}{f', {each.options}' if each.options else ''})"
        for name, each in manifest.questions.items()
    )
    return (
        table(head, rows)
        + f"\nUses of the downloads: {uses}. [benchmarks.md](../benchmarks.md) has more.\n"
    )


def _comparisons(manifest: PaperManifest) -> str:
    rows = [
        (each.what, "yes" if each.comparable else "no", each.why) for each in manifest.comparisons
    ]
    return table(("number", "comparable", "why"), rows)


def _ablations(manifest: PaperManifest) -> Iterator[str]:
    rows = []
    for name in ablation_names():
        if name.startswith(f"{manifest.system}/") and ablation_row(name) != _NO_ROW:
            rows.append((f"`+ablations={name}`", ablation_summary(name), ablation_row(name)))
    yield (
        "These are rows of the paper; `docagent-rl recipes ablations` also lists our own. Each is a "
        "separate run: add it to the command of the stage `rl`, or to that of an evaluation if it "
        "does not change training.\n"
    )
    yield table(("override", "what it changes", "the paper's row"), rows)


def _literal(manifest: PaperManifest) -> str:
    text = manifest.literal
    if _setting(manifest, manifest.models[0], Beginning.SCRATCH).has_literal:
        return f"`+ablations={manifest.system}/literal`, or `--literal`: {text}.\n"
    return f"{text[0].upper()}{text[1:]}.\n"


def _settings(recipe: str) -> str:
    found = read_provenance(recipe)
    departing = found.keys(ProvenanceSource.DEPARTS)
    rows = [
        (f"`{shortened(key)}`", "printed", f"{paper.value} ({paper.where})")
        for key, paper in found.printed.items()
        if key not in departing
    ]
    for source, kind in _KINDS.items():
        for keys, text in found.notes.get(source, ()):
            printed = [found.printed[key].where for key in keys if key in found.printed]
            where = f" (printed: {'; '.join(dict.fromkeys(printed))})" if printed else ""
            where = where if source is ProvenanceSource.DEPARTS else ""
            rows.append((", ".join(f"`{shortened(key)}`" for key in keys), kind, text + where))
    head = f"The settings of `{recipe}`, as `docagent-rl recipes show` prints them:\n\n"
    return head + table(("key", "the paper", "value, or what is used here"), rows)


if __name__ == "__main__":
    app()

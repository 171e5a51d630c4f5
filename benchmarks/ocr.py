"""Compare the text that OCR reads from real pages with their text layers."""

from __future__ import annotations

import re
import resource
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from PIL import Image

from benchmarks.common import show
from docagent_rl.documents.manifest import TextReason
from docagent_rl.documents.page_text import assess, layer_text
from docagent_rl.documents.pdf import POINTS_PER_INCH, open_pdf
from docagent_rl.documents.upright import read_scan

_FETCH = Path(__file__).parents[1] / "tools" / "fetch_pdfs.sh"
_FEWEST_WORDS = 50


@dataclass
class Score:
    """Counts of the words that an engine read on all pages.

    Args:
        seconds: processor time, including that of programs that the engine started.
        found: words of the text layers that the engine read; a word counts as often as it occurs in
            both.
        held: words of the text layers.
        read: words that the engine read.
        worst: the lowest recall of a page.
    """

    seconds: float = 0.0
    found: int = 0
    held: int = 0
    read: int = 0
    worst: float = 1.0

    def add(self, seconds: float, text: str, truth: str) -> None:
        """Count the words of a page: `text` is what the engine read, `truth` the text layer."""
        read, held = words(text), words(truth)
        found = (read & held).total()
        self.seconds += seconds
        self.found += found
        self.held += held.total()
        self.read += read.total()
        self.worst = min(self.worst, found / held.total())


def words(text: str) -> Counter[str]:
    """Count the words of ASCII letters and digits in a text, in lower case."""
    return Counter(re.findall(r"[a-z0-9]+", text.casefold()))


def candidates() -> dict[str, Callable[[Image.Image], str]]:
    """Return the engines to measure, by name, each restricted to one thread."""
    return {
        "rapidocr, its defaults": _rapidocr_defaults(),
        "rapidocr, as `ingest` runs it": lambda image: read_scan(image).text,
    }


def pages(folder: Path, each: int, dpi: int) -> Iterator[tuple[Image.Image, str]]:
    """Yield the pictures and text layers of `each` pages of every PDF.

    The pages are spread evenly over those that have 50 words or more.
    """
    for path in sorted(folder.glob("*.pdf")):
        with open_pdf(path) as pdf:
            good = [n for n in range(1, pdf.num_pages + 1) if _is_good(pdf, n)]
            for number in good[:: max(1, len(good) // each)][:each]:
                with pdf.page(number) as page:
                    image = page.render(scale=dpi / POINTS_PER_INCH).to_pil().convert("RGB")
                    yield image, layer_text(page.get_textpage())


def main(
    folder: Annotated[
        Path | None, typer.Argument(help="A folder of PDFs; by default Debian's manuals.")
    ] = None,
    each: Annotated[int, typer.Option(help="Pages to take from every PDF.")] = 5,
    dpi: Annotated[int, typer.Option(help="Pixels per inch.")] = 150,
) -> None:
    """Print processor time and word recall of every engine on the same pages."""
    with tempfile.TemporaryDirectory() as fetched:
        if folder is None:
            folder = Path(fetched)
            subprocess.run(["bash", _FETCH, folder], check=True)
        samples = list(pages(folder, each, dpi))
    if not samples:
        raise typer.BadParameter(f"{folder} has no PDF with pages of {_FEWEST_WORDS} words or more")
    scores = measure(samples)
    rows = [
        [
            name,
            f"{score.seconds / len(samples):.2f}",
            f"{score.found / score.held:.3f}",
            f"{score.found / max(1, score.read):.3f}",
            f"{score.worst:.3f}",
        ]
        for name, score in scores.items()
    ]
    show(
        f"{len(samples)} pages at {dpi} dpi",
        ["engine", "CPU s a page", "word recall", "precision", "worst page"],
        rows,
    )


def measure(samples: list[tuple[Image.Image, str]]) -> dict[str, Score]:
    """Let every engine read each page in turn, and score what it reads."""
    engines = candidates()
    small = Image.new("RGB", (64, 64), "white")
    scores = {name: Score() for name in engines}
    for read in engines.values():
        read(small)  # loads the models
    for image, truth in samples:
        for name, read in engines.items():
            start = _processor_time()
            text = read(image)
            scores[name].add(_processor_time() - start, text, truth)
    return scores


def _is_good(pdf: Any, number: int) -> bool:
    with pdf.page(number) as page:
        text = layer_text(page.get_textpage())
    sound = assess(text, 0.0, lambda: False) is TextReason.SOUND
    return sound and words(text).total() >= _FEWEST_WORDS


def _rapidocr_defaults() -> Callable[[Image.Image], str]:
    """Return rapidocr with its default settings, except that it uses one thread."""
    import rapidocr

    models = Path(rapidocr.__file__).parent / "models"
    engine = rapidocr.RapidOCR(
        params={
            "Global.log_level": "error",
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Det.model_path": str(models / "PP-OCRv6_det_small.onnx"),
            "Cls.model_path": str(models / "ch_ppocr_mobile_v2.0_cls_mobile.onnx"),
            "Rec.model_path": str(models / "PP-OCRv6_rec_small.onnx"),
        }
    )
    return lambda image: "\n".join(engine(np.asarray(image)[..., ::-1]).txts or ())


def _processor_time() -> float:
    found = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


if __name__ == "__main__":
    typer.run(main)

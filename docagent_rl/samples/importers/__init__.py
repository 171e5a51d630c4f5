"""Importers of public benchmarks, by name; each reads the official files."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docagent_rl.samples.importers.importer import Importer


class Benchmark(StrEnum):
    """A benchmark that can be imported."""

    MMLONGBENCH_DOC = "mmlongbench_doc"
    LONGDOCURL = "longdocurl"
    SLIDEVQA = "slidevqa"
    MP_DOCVQA = "mp_docvqa"
    DUDE = "dude"
    VIDOSEEK = "vidoseek"
    UDA = "uda"
    VRAG_RL = "vrag_rl"
    UNIDOC_RL = "unidoc_rl"
    ALDEN = "alden"


_MODULES = {
    "pdf_sets": (Benchmark.MMLONGBENCH_DOC, Benchmark.LONGDOCURL, Benchmark.DUDE),
    "picture_sets": (Benchmark.SLIDEVQA, Benchmark.MP_DOCVQA, Benchmark.ALDEN),
    "corpora": (Benchmark.VIDOSEEK, Benchmark.VRAG_RL, Benchmark.UNIDOC_RL),
    "uda": (Benchmark.UDA,),
}


def get_importer(benchmark: Benchmark) -> Importer:
    """Return the importer of a benchmark."""
    (name,) = (name for name, benchmarks in _MODULES.items() if benchmark in benchmarks)
    importers = import_module(f"{__name__}.{name}").IMPORTERS
    return next(importer for importer in importers if importer.name == benchmark)

"""Importers of public benchmarks, by name; each reads the official files and has a module of its own."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docagent_rl.samples.importers.importer import Importer


class Benchmark(StrEnum):
    """A benchmark that can be imported; its module has the same name."""

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


def get_importer(benchmark: Benchmark) -> Importer:
    """Return the importer of a benchmark."""
    return import_module(f"{__name__}.{benchmark.value}").IMPORTER

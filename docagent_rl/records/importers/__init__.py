"""Importers of public benchmarks, by name; each reads the official files and has a module of its own."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docagent_rl.records.importers.importer import Importer


class Benchmark(StrEnum):
    """What can be imported."""

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


IMPORTERS: Mapping[Benchmark, str] = {each: f"{__name__}.{each.value}" for each in Benchmark}
"""Modules with an `IMPORTER`, each imported when asked for."""


def get_importer(benchmark: Benchmark) -> Importer:
    """The importer of a benchmark."""
    return import_module(IMPORTERS[benchmark]).IMPORTER

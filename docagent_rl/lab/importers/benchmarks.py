"""The public benchmarks that can be imported, by name; the importers read the official files."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING

from docagent_rl.base.errors import UserError

if TYPE_CHECKING:
    from docagent_rl.lab.importers.importer import Importer


class Benchmark(StrEnum):
    """A benchmark that can be imported."""

    MMLONGBENCH_DOC = "mmlongbench_doc"
    MMLONGBENCH_DOC_V2 = "mmlongbench_doc_v2"
    LONGDOCURL = "longdocurl"
    SLIDEVQA = "slidevqa"
    MP_DOCVQA = "mp_docvqa"
    DUDE = "dude"
    VIDOSEEK = "vidoseek"
    MADQA = "madqa"
    VIDORE_V3 = "vidore_v3"
    UDA = "uda"
    VRAG_RL = "vrag_rl"
    UNIDOC_RL = "unidoc_rl"
    ALDEN = "alden"
    DOUBLE_BENCH = "double_bench"
    VISR_BENCH = "visr_bench"
    DOCBENCH = "docbench"


_PACKAGE = __name__.rpartition(".")[0]
_MODULES = (
    "mmlongbench",
    "pdf_sets",
    "picture_sets",
    "corpora",
    "madqa",
    "vidore",
    "unidoc_sources",
)


def get_importer(name: str) -> Importer:
    """Return the importer of a benchmark, or the user's own importer `package.module:CLASS`.

    Raises:
        UserError: there is no such benchmark, or the class is not an importer (`own.own_importer`).
    """
    if ":" in name:
        return import_module(f"{_PACKAGE}.own").own_importer(name)
    modules = (import_module(f"{_PACKAGE}.{module}") for module in _MODULES)
    for importer in (each for module in modules for each in module.IMPORTERS):
        if importer.name == name:
            return importer
    raise UserError(
        f"there is no benchmark {name!r}; available: {', '.join(Benchmark)}, "
        "or an importer of your own as package.module:CLASS"
    )

from docagent_rl.lab.importers.benchmarks import (
    Benchmark as Benchmark,
    get_importer as get_importer,
)
from docagent_rl.lab.importers.importer import Importer as Importer
from docagent_rl.lab.importers.native import (
    ImportedQuestion as ImportedQuestion,
    NativeRow as NativeRow,
    Skip as Skip,
    document_id as document_id,
)

from docagent_rl.samples.parquet import (
    read_parquet as read_parquet,
    read_samples as read_samples,
    write_parquet as write_parquet,
)
from docagent_rl.samples.questions import read_questions as read_questions
from docagent_rl.samples.sample import (
    EvidenceSource as EvidenceSource,
    Sample as Sample,
    Split as Split,
    write_jsonl as write_jsonl,
)

from docagent_rl.runs.columns import (
    COLUMNS as COLUMNS,
    Column as Column,
    RunTable as RunTable,
)
from docagent_rl.runs.run import (
    Run as Run,
    RunKind as RunKind,
    open as open,
)

from docagent_rl.runs.columns import (
    COLUMNS as COLUMNS,
    Column as Column,
    RunTable as RunTable,
)
from docagent_rl.runs.run import (
    RunFrames as RunFrames,
    RunKind as RunKind,
    open as open,
)

from docagent_rl.base.errors import UserError as UserError
from docagent_rl.documents import PageRef as PageRef
from docagent_rl.retrieval.base import (
    Hit as Hit,
    Retriever as Retriever,
    check_queries as check_queries,
)
from docagent_rl.retrieval.config import RetrieverConfig as RetrieverConfig
from docagent_rl.retrieval.opening import open_retriever as open_retriever

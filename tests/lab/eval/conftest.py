"""Small corpora, and services on them."""

from tests.corpus import (  # noqa: F401  fixtures
    judge,
    make_env,
    make_mm_env,
    make_sample,
    play,
    report_question,
    report_services,
    report_store,
    retriever,
    services,
    store,
)

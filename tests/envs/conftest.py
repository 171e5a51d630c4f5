from tests.corpus import (  # noqa: F401  fixtures
    judge,
    make_sample,
    play,
    report_store,
    retriever,
    services,
    store,
)

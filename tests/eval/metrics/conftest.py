from tests.corpus import judge, play, record, retriever, services, store  # noqa: F401  fixtures

from tests.corpus import judge, make_sample, play, report_store, retriever, services, store  # noqa: F401  fixtures

from tests.workspaces import long_workspace, resources_of  # noqa: F401  fixtures

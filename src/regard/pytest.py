"""For test files: `@regard.pytest.parametrize([...])` gives a test one case per target and rule."""

from regard.pytest_plugin import parametrize as parametrize

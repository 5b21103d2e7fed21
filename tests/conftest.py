"""Settings for all tests."""

collect_ignore = ["state/outside_source"]
"""A distribution of its own: its types of sources exist only where a test installs it."""

pytest_plugins = ["tests.left_out", "tests.sample", "tests.slow_share"]

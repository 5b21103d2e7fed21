"""Settings for all tests."""

pytest_plugins = ["tests.left_out", "tests.sample", "tests.slow_share"]

"""Settings for all tests."""

from hypothesis import settings

pytest_plugins = ["tests.left_out"]

# A loaded machine is no failure: no test is judged by its time.
settings.register_profile("tidegate", deadline=None)
settings.load_profile("tidegate")

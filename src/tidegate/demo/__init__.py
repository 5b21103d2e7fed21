"""The demo: a drifting stream, and private models that follow it."""

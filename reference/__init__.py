"""Writes docs/reference/ from the commands, the configuration tables and the docstrings."""

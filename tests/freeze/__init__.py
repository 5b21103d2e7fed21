"""The freeze: what small configurations release, byte for byte, as it was when they were frozen.

`python -m tests.freeze` tells what has changed; see CONTRIBUTING.md, "The freeze".
"""

"""A meter of the code: how much there is, how it hangs together, how far a record travels.

    python -m tests.house                  what it measures, beside what is stored and the bar
    python -m tests.house --fast           only what can be read off the source, in seconds
    python -m tests.house --slow           CPU seconds of two commands as well
    python -m tests.house --format json    one line for programs
    python -m tests.house --where NAME     what a number is made of
    python -m tests.house --write          store every number that got better
    python -m tests.house --write --raise NAME --because "why"    store a worse one

`tests/house.json` is a ratchet: `tests/test_house.py` fails if a number is worse than stored there.
`numbers.py` lists the numbers; the docstring of the function behind each says what it counts:

- `source.py`: lines, comparisons with None, flags and names, read off the syntax of each module;
- `imports.py`: which module imports which;
- `scenarios.py`: a first release and a prediction, recorded by `calls.py` in a fresh interpreter;
- `commands.py`: CPU seconds. They depend on the machine, so they are printed and never stored.

How many files a new score, source or key takes is not measured here: tests that add a toy one show
that.
"""

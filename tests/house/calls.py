"""Records which functions of the package are called, on every thread that starts meanwhile."""

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import CodeType, FrameType

import tidegate

PACKAGE = Path(tidegate.__file__).parent

GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Calls:
    """The calls of functions of the package that `sys.setprofile` reports while it is recording.

    Function means anything made by `def` or `lambda`. Bodies of modules and classes are none, and
    comprehensions and generator expressions are part of the function around them: newer versions of
    Python do not call them. A generator or coroutine is called once, however often it goes on.
    """

    def __init__(self) -> None:
        self.of: Counter[CodeType] = Counter()
        self.recording = False
        self._going: dict[int, FrameType] = {}  # kept, so that no other frame gets the number

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Called by Python for every call and return."""
        code = frame.f_code
        if self.recording and event == "call" and _is_function(code):
            if code.co_flags & GENERATORS:
                if id(frame) in self._going:
                    return
                self._going[id(frame)] = frame
            self.of[code] += 1

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record for a while, on threads that are installed or were started since."""
        self.recording = True
        try:
            yield
        finally:
            self.recording = False

    @property
    def functions(self) -> list[str]:
        """The functions that were called."""
        return sorted(f"{module_of(code)}:{code.co_qualname}" for code in self.of)

    @property
    def modules(self) -> list[str]:
        """The modules that have a function that was called."""
        return sorted({module_of(code) for code in self.of})


@contextmanager
def installed(calls: Calls) -> Iterator[None]:
    """Have Python report to `calls`: on this thread, and on all that are started meanwhile."""
    threading.setprofile(calls)
    sys.setprofile(calls)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def import_everything() -> None:
    """Import all modules of the package: what runs on import is no part of a recording."""
    for each in walk_packages(tidegate.__path__, "tidegate."):
        if not each.name.endswith(".__main__"):
            import_module(each.name)


def _is_function(code: CodeType) -> bool:
    return (
        code.co_filename.startswith(str(PACKAGE))
        and bool(code.co_flags & inspect.CO_OPTIMIZED)
        and (not code.co_name.startswith("<") or code.co_name == "<lambda>")
    )


def module_of(code: CodeType) -> str:
    """The module that a function stands in, as a path in the package."""
    return Path(code.co_filename).relative_to(PACKAGE).as_posix()

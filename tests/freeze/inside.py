"""What the freeze uses of Tidegate that is not public: if it moves, change it here alone."""

from tidegate.checks import InvalidValueError, StoppedError
from tidegate.privacy.noise import SystemBits
from tidegate.privacy.person import Person
from tidegate.release import FIRST, StoredRelease, seal
from tidegate.release.export_formats import KINDS as EXPORTS

__all__ = [
    "EXPORTS",
    "FIRST",
    "InvalidValueError",
    "Person",
    "StoppedError",
    "StoredRelease",
    "SystemBits",
    "seal",
]

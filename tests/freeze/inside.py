"""What the freeze uses of Tidegate that is not public: if it moves, change it here alone."""

from tidegate.checks import InvalidValueError, StoppedError
from tidegate.gate.export import KINDS as EXPORTS
from tidegate.privacy.bits import SystemBits
from tidegate.privacy.person import Person
from tidegate.release import FIRST, StoredRelease, seal

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

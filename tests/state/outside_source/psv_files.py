"""A format of files that no file of Tidegate knows: values separated by bars."""

from dataclasses import dataclass

from tidegate.sources.csv_file import Csv


@dataclass(frozen=True, kw_only=True)
class Psv(Csv):
    """Reads files of values that bars separate."""

    type = "psv"
    about = "files of values between bars"
    suffix = ".psv"

    @property
    def separator(self) -> str:
        return "|"

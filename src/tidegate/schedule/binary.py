"""Functions of binary numbers that schedules use."""


def is_power(number: int) -> bool:
    """Whether a positive number is a power of two (1 is).

    >>> [number for number in range(1, 10) if is_power(number)]
    [1, 2, 4, 8]
    """
    return number & (number - 1) == 0


def log2(number: int) -> int:
    """The base-2 logarithm of a positive number, rounded down.

    >>> [log2(number) for number in (1, 2, 3, 4, 7, 8)]
    [0, 1, 1, 2, 2, 3]
    """
    return number.bit_length() - 1


def ruler(number: int) -> int:
    """How many times 2 divides a positive number.

    >>> [ruler(number) for number in range(1, 9)]
    [0, 1, 0, 2, 0, 1, 0, 3]
    """
    return log2(number & -number)


def ruler_sum(number: int) -> int:
    """The sum of `ruler(i) + 1` for i = 1, ..., number: the bits a counter flips.

    >>> [ruler_sum(number) for number in range(5)]
    [0, 1, 3, 4, 7]
    """
    return 2 * number - number.bit_count()

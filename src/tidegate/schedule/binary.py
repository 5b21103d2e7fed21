"""The three questions on binary numbers that the schedules ask."""


def is_power(number: int) -> bool:
    """Whether a positive number is a power of two (1 is).

    >>> [number for number in range(1, 10) if is_power(number)]
    [1, 2, 4, 8]
    """
    return number & (number - 1) == 0


def log2(number: int) -> int:
    """The exponent of the largest power of two that is not above a positive number.

    >>> [log2(number) for number in (1, 2, 3, 4, 7, 8)]
    [0, 1, 1, 2, 2, 3]
    """
    return number.bit_length() - 1


def ruler(number: int) -> int:
    """How often 2 divides a positive number.

    >>> [ruler(number) for number in range(1, 9)]
    [0, 1, 0, 2, 0, 1, 0, 3]
    """
    return log2(number & -number)


def ruler_sum(number: int) -> int:
    """The sum of `ruler(i) + 1` over 1 <= i <= number: how often a counter has flipped a bit.

    >>> [ruler_sum(number) for number in range(5)]
    [0, 1, 3, 4, 7]
    """
    return 2 * number - number.bit_count()

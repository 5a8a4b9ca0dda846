"""Errors raised to users."""


class InputError(ValueError):
    """Invalid input; the message says what is wrong, where, and what to do."""


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message names the install command."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; run: pip install 'nodeproof[{extra}]'")


def count_of(count: int, thing: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count_of(1, "node"), count_of(12000, "node")
    ('1 node', '12,000 nodes')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def one_line(error: BaseException) -> str:
    """Return the kind and message of an error on one line.

    Examples
    --------
    >>> one_line(ValueError("a long    message"))
    'ValueError: a long message'
    """
    return " ".join(f"{type(error).__name__}: {error}".split())

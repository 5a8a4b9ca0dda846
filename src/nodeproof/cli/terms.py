"""Options of `nodeproof fit` that say which columns of the features are counts, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from nodeproof.errors import InputError

if TYPE_CHECKING:
    from nodeproof.terms import Term

__all__ = ["TERM_OPTIONS", "terms_of_columns"]

#: the options themselves, as decorators
TERM_OPTIONS = (
    click.option("--counts", metavar="COLUMNS",
                 help="Columns of the features with counts: names with commas between them."),
    click.option("--regress", metavar="TARGET~COLUMNS",
                 help="A column that depends on others in each class, such as income~age,size."),
    click.option("--categories", metavar="COLUMNS",
                 help="Columns of the features with categories, numbered from 0 on."),
)  # fmt: skip


def terms_of_columns(
    counts: str | None, regress: str | None, categories: str | None, names: Sequence[str] | None
) -> list[Term]:
    """Return the terms that the options ask for.

    Parameters
    ----------
    counts, regress, categories : str or None
        As they were given.
    names : sequence of str, or None
        Of the features. Digits mean the column at this position of a file without names.
    """
    from nodeproof.terms import Categorical, Counts, Regression

    terms: list[Term] = []
    if counts is not None:
        terms.append(Counts(_columns("--counts", counts, names)))
    if regress is not None:
        target, tilde, covariates = regress.partition("~")
        (column,) = _columns("--regress", target, names) if "," not in target else ("",)
        if not column:
            raise InputError(f"--regress takes one target, such as income~age,size; got {regress}")
        listed = _columns("--regress", covariates, names) if tilde else None
        terms.append(Regression(column, listed))
    if categories is not None:
        terms.append(Categorical(_columns("--categories", categories, names)))
    return terms


def _columns(option: str, text: str, names: Sequence[str] | None) -> list[str | int]:
    from nodeproof.tables.files import unnamed

    found: list[str | int] = []
    for name in (part.strip() for part in text.split(",")):
        if not name:
            raise InputError(f"{option} takes names with commas between them, got {text!r}")
        if not name.isdecimal() or name in (names or ()):
            found.append(name)
        else:
            found.append(int(name) if names is None else unnamed(int(name)))
    return found

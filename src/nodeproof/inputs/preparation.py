"""Attributes of any kind as features: text one-hot encoded, gaps filled, numbers scaled.

scikit-learn's transformers decide on medians, scales and categories; what they have decided is
kept as plain numbers and texts (`PreparedColumn`), saved with the model, and applied in the same
way to the nodes of the fit and to new ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from nodeproof.errors import InputError, count_of
from nodeproof.inputs.attributes import Attribute
from nodeproof.runtime.memory import check_free

__all__ = ["STEPS", "Preparation", "PreparedColumn", "check_steps", "prepare"]

#: what can be done to a table, all of it by default
STEPS = ("one-hot", "impute", "scale")

# Texts of a column that get a feature each, the most frequent ones; the others share one.
_MOST_TEXTS = 50
# A column of more different texts, and more than half as many as nodes, names things.
_FEW_TEXTS = 10
# From this mean length on, or this many words, texts are sentences rather than categories.
_LONG, _WORDS = 40, 6
# Fewer numbers may well count up by chance.
_FEW_ROWS = 20
# How many names a line lists.
_LISTED = 12


@dataclass(frozen=True)
class PreparedColumn:
    """How one column of a table becomes features.

    Attributes
    ----------
    name : str
        The column.
    texts : tuple of str, or None
        The texts that have a feature each, "" for what is missing; None for numbers.
    other : bool
        Whether one more feature is for texts that are rarer.
    fill : float or None
        The number where one is missing; None if that is an error.
    mean, scale : float
        Numbers are taken as ``(x − mean) / scale``.
    """

    name: str
    texts: tuple[str, ...] | None = None
    other: bool = False
    fill: float | None = None
    mean: float = 0.0
    scale: float = 1.0

    @property
    def features(self) -> list[str]:
        """Names of its features."""
        if self.texts is None:
            return [self.name]
        named = [f"{self.name}={text or '(missing)'}" for text in self.texts]
        return [*named, f"{self.name}=(other)"] if self.other else named

    def encode(self, attribute: Attribute) -> NDArray[np.float64]:
        """Return the features, shape (n, len(features)); NaN where nothing fills a gap."""
        if self.texts is None:
            if attribute.numbers is None:
                if attribute.codes is None or (attribute.codes >= 0).any():
                    raise InputError(
                        f"the column {self.name!r} was numbers in the fit, and is text here"
                    )
                filled = np.full(len(attribute.codes), np.nan)
            else:
                filled = attribute.numbers.copy()
            if self.fill is not None:
                filled[np.isnan(filled)] = self.fill
            return np.asarray(((filled - self.mean) / self.scale)[:, None])
        codes, texts = _as_texts(attribute)
        place = {text: k for k, text in enumerate(self.texts)}
        rest = len(self.texts) if self.other else -1
        # The last entry is for what is missing.
        column = np.array([*(place.get(text, rest) for text in texts), place.get("", -1)])[codes]
        encoded = np.zeros((len(codes), len(self.features)))
        known = column >= 0
        encoded[np.flatnonzero(known), column[known]] = 1.0
        return encoded

    def count_unknown(self, attribute: Attribute) -> int:
        """Return how many nodes have a text that the fit did not know."""
        if self.texts is None or self.other:
            return 0
        codes, texts = _as_texts(attribute)
        unknown = np.array([*(text not in self.texts for text in texts), False])
        return int(unknown[codes].sum())


def _as_texts(attribute: Attribute) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return codes and texts of an attribute; numbers as they are written."""
    if attribute.codes is not None:
        return attribute.codes, attribute.texts
    assert attribute.numbers is not None
    values, codes = np.unique(attribute.numbers, return_inverse=True)
    texts = tuple(f"{value:.15g}" for value in values.tolist())
    return np.where(np.isnan(attribute.numbers), -1, codes), texts


@dataclass(frozen=True)
class Preparation:
    """How a table becomes features.

    Attributes
    ----------
    columns : tuple of PreparedColumn
        The columns that are used.
    steps : tuple of str
        What is done to them: some of `STEPS`.
    node : str
        The column with the names of the nodes, if there is one.
    """

    columns: tuple[PreparedColumn, ...]
    steps: tuple[str, ...] = STEPS
    node: str = ""

    @property
    def features(self) -> list[str]:
        """Names of all features."""
        return [name for column in self.columns for name in column.features]

    @property
    def names(self) -> list[str]:
        """Names of the columns that it needs."""
        return [column.name for column in self.columns]

    def apply(self, attributes: Sequence[Attribute]) -> NDArray[np.float64]:
        """Return the features of nodes, shape (n, m); the attributes are those of `names`.

        A text that the fit did not know counts as none of those it knew.
        """
        found = {attribute.name: attribute for attribute in attributes}
        for attribute in attributes:
            if attribute.useless:
                raise InputError(f"the column {attribute.name!r} holds {attribute.useless}")
        parts = [column.encode(found[column.name]) for column in self.columns]
        X = np.concatenate(parts, axis=1)
        if np.isinf(X).any():
            name = self.features[int(np.isinf(X).any(axis=0).argmax())]
            raise InputError(f"the column {name!r} holds infinity: numbers must be finite")
        return X

    def blank(self) -> NDArray[np.float64] | None:
        """Return the features of a node that nothing is known of, shape (m,); None if it is due."""
        if "impute" not in self.steps:
            return None
        gap = np.array([-1])
        return self.apply([Attribute(column.name, codes=gap) for column in self.columns])[0]

    def note_on_unknown(self, attributes: Sequence[Attribute], where: str) -> list[str]:
        """Return a note on texts that the fit did not know, if there are any."""
        found = {attribute.name: attribute for attribute in attributes}
        counts = {column.name: column.count_unknown(found[column.name]) for column in self.columns}
        listed = [f"{name} ({count})" for name, count in counts.items() if count]
        if not listed:
            return []
        return [f"texts of {where} that the fit did not know, counted as none: {', '.join(listed)}"]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, for the header of a model."""
        columns = [asdict(column) for column in self.columns]
        return {"steps": list(self.steps), "node": self.node, "columns": columns}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Preparation:
        """Return it from plain values that have been checked."""
        columns = [
            PreparedColumn(**{**column, "texts": _tuple(column["texts"])})
            for column in given["columns"]
        ]
        return cls(tuple(columns), tuple(given["steps"]), given["node"])


def _tuple(texts: list[str] | None) -> tuple[str, ...] | None:
    return None if texts is None else tuple(texts)


def check_steps(steps: Any) -> tuple[str, ...]:
    """Return the steps that are asked for: True for all of them, False for none, or their names."""
    if isinstance(steps, bool):
        return STEPS if steps else ()
    named = (steps,) if isinstance(steps, str) else tuple(steps)
    wrong = [step for step in named if step not in STEPS]
    if wrong:
        raise InputError(f"prepare must be True, False or some of {STEPS}, got {wrong[0]!r}")
    return named


def prepare(
    attributes: Sequence[Attribute], steps: Sequence[str] = STEPS, where: str = "the table"
) -> tuple[NDArray[np.float64] | None, Preparation, str]:
    """Find out how attributes become features.

    Parameters
    ----------
    attributes : sequence of Attribute
        Of n nodes.
    steps : sequence of str
        Some of `STEPS`. Without "one-hot", text is not used; without "impute", what is missing
        stays NaN.
    where : str
        What to call the table in errors and in the line.

    Returns
    -------
    X : ndarray of shape (n, m), or None
        The features; None if there are none.
    preparation : Preparation
        How to do the same to new nodes.
    line : str
        One line that says all of that.

    Examples
    --------
    >>> from nodeproof.inputs.attributes import read_attribute
    >>> ages = read_attribute("age", [30.0, None, 50.0])
    >>> town = read_attribute("town", ["Oslo", "Rome", "Oslo"])
    >>> X, preparation, line = prepare([ages, town])
    >>> X.round(2).tolist()
    [[-1.22, 1.0, 0.0], [0.0, 0.0, 1.0], [1.22, 1.0, 0.0]]
    >>> print(line)
    features of the table: age (numbers, scaled, 1 missing value replaced by the median); town
    (text, one-hot: 2 columns)
    """
    used: list[tuple[PreparedColumn, Attribute]] = []
    unused: dict[str, str] = {}
    for attribute in attributes:
        why = attribute.useless or _why_useless(attribute, steps)
        if why:
            unused[attribute.name] = why
        else:
            used.append((_prepared(attribute, steps), attribute))
    preparation = Preparation(tuple(column for column, _ in used), tuple(steps))
    X = None
    if used:
        n, m = len(used[0][1].missing), len(preparation.features)
        check_free(16.0 * n * m, f"{m:,} features of {n:,} nodes", "leave out columns")
        X = preparation.apply([attribute for _, attribute in used])
    return X, preparation, _describe(used, unused, steps, where)


def _why_useless(attribute: Attribute, steps: Sequence[str]) -> str:
    """Return why an attribute is not used as a feature, or nothing."""
    known = attribute.raw[~attribute.missing]
    if not len(known):
        return "empty"
    distinct = len(np.unique(known))
    gaps = attribute.codes is not None and "impute" in steps and bool(attribute.missing.any())
    if distinct == 1 and not gaps:
        return "the same everywhere"
    if attribute.codes is None:
        return "counts the rows" if _counts(known, distinct) else ""
    counts = np.bincount(attribute.codes[attribute.codes >= 0], minlength=len(attribute.texts))
    seen = [text for text, count in zip(attribute.texts, counts, strict=True) if count]
    number = looks_like_number(seen)
    if number:
        return f"texts that look like numbers: write {number[0]!r} as {number[1]}"
    long = np.mean([len(text) for text in seen]) >= _LONG
    wordy = np.mean([len(text.split()) for text in seen]) >= _WORDS
    if distinct > _FEW_TEXTS and (long or wordy):
        return "texts; TfidfVectorizer of scikit-learn turns them into features"
    if distinct > max(_FEW_TEXTS, len(known) // 2):
        return f"{distinct:,} different texts"
    return "" if "one-hot" in steps else "text"


# Numbers as people write them: with decimal commas, groups of three digits, currencies, per cent.
_WRITTEN = re.compile(
    r"(?P<sign>[-+]?)[€$£]?\s*(?P<sign2>[-+]?)"
    r"(?P<digits>\d{1,3}(?:[.,'’\s]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?)\s*(?:[€$£%]|kr)?"
)
# Of the texts, so many must be such numbers.
_NUMBERS = 0.9


def looks_like_number(texts: Sequence[str]) -> tuple[str, str] | None:
    """Return a text that is a number but is not written as one, and how to write it.

    None unless nearly all texts are such numbers.

    Examples
    --------
    >>> looks_like_number(["12,50", "7,25"]), looks_like_number(["€ 1,250.00"])
    (('12,50', '12.50'), ('€ 1,250.00', '1250.00'))
    >>> looks_like_number(["123 45", "SAS123"]) is looks_like_number(["2024-05-01"]) is None
    True
    """
    found = [_WRITTEN.fullmatch(text.strip()) for text in texts]
    if not texts or sum(match is not None for match in found) < _NUMBERS * len(texts):
        return None
    text, match = next((text, match) for text, match in zip(texts, found, strict=True) if match)
    digits = re.sub(r"['’\s]", "", match["digits"])
    point = max(digits.rfind("."), digits.rfind(","))
    grouped = len({*digits} & {".", ","}) < 2 and bool(re.fullmatch(r"\d{1,3}([.,]\d{3})+", digits))
    if point < 0 or grouped:
        plain = re.sub(r"[.,]", "", digits)
    else:
        plain = re.sub(r"[.,]", "", digits[:point]) + "." + digits[point + 1 :]
    return text, (match["sign"] or match["sign2"]) + plain


def _counts(known: NDArray[np.float64], distinct: int) -> bool:
    """Tell whether a column of numbers only numbers the rows."""
    if len(known) < _FEW_ROWS or distinct < len(known) or (known != np.round(known)).any():
        return False
    return bool(known.max() - known.min() == len(known) - 1)


def _prepared(attribute: Attribute, steps: Sequence[str]) -> PreparedColumn:
    """Return how an attribute becomes features, as scikit-learn's transformers decide."""
    if attribute.codes is not None:
        return _one_hot(attribute, "impute" in steps)
    assert attribute.numbers is not None
    if np.isinf(attribute.numbers).any():
        raise InputError(f"the column {attribute.name!r} holds infinity: numbers must be finite")
    # Sorted, so that the order of the rows does not decide the last bits.
    numbers = np.sort(attribute.numbers)[:, None]
    fill, mean, scale = None, 0.0, 1.0
    if "impute" in steps:
        imputer = SimpleImputer(strategy="median")
        numbers = np.sort(imputer.fit_transform(numbers), axis=0)
        fill = float(imputer.statistics_[0])
    if "scale" in steps:
        scaler = StandardScaler().fit(numbers)
        mean, scale = float(scaler.mean_[0]), float(scaler.scale_[0])
    return PreparedColumn(attribute.name, fill=fill, mean=mean, scale=scale)


def _one_hot(attribute: Attribute, impute: bool) -> PreparedColumn:
    assert attribute.codes is not None
    cells = np.array([*attribute.texts, ""], dtype=object)[attribute.codes]
    cells = cells if impute else cells[attribute.codes >= 0]
    encoder = OneHotEncoder(max_categories=_MOST_TEXTS + 1, handle_unknown="infrequent_if_exist")
    encoder.fit(cells[:, None])
    rare = encoder.infrequent_categories_[0]
    rarer = set() if rare is None else set(rare.tolist())
    texts = [text for text in encoder.categories_[0].tolist() if text not in rarer]
    return PreparedColumn(attribute.name, texts=tuple(texts), other=bool(rarer))


def _describe(
    used: Sequence[tuple[PreparedColumn, Attribute]],
    unused: Mapping[str, str],
    steps: Sequence[str],
    where: str,
) -> str:
    """Return one line on what is used, how, and what is not."""
    parts = []
    numbers = [attribute for column, attribute in used if column.texts is None]
    if numbers:
        done = ["numbers", "scaled" if "scale" in steps else "not scaled"]
        gaps = sum(int(attribute.missing.sum()) for attribute in numbers)
        if gaps and "impute" in steps:
            done.append(f"{count_of(gaps, 'missing value')} replaced by the median")
        parts.append(f"{_names(numbers)} ({', '.join(done)})")
    texts = [(column, attribute) for column, attribute in used if column.texts is not None]
    if texts:
        width = sum(len(column.features) for column, _ in texts)
        listed = _names([attribute for _, attribute in texts])
        parts.append(f"{listed} (text, one-hot: {count_of(width, 'column')})")
    line = f"features of {where}: {'; '.join(parts) or 'none'}"
    if unused:
        line += f"; not used: {', '.join(f'{name} ({why})' for name, why in unused.items())}"
    return line


def _names(attributes: Sequence[Attribute]) -> str:
    shown = ", ".join(attribute.name for attribute in attributes[:_LISTED])
    more = len(attributes) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown

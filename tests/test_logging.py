"""Progress goes through the logger ``nodeproof``; it is printed only where nobody listens."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from nodeproof import NodeClassifier
from nodeproof.runtime.logs import logger, shown


def let_nobody_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do as a program that has not configured logging: pytest itself listens to all tests."""
    monkeypatch.setattr(logger, "propagate", False)


def fit(planted, **settings: object) -> NodeClassifier:
    clf = NodeClassifier(n_init=1, random_state=0, **settings)
    return clf.fit(planted.X, planted.y, graph=planted.graph)


def test_the_library_is_silent_by_itself(planted, capsys, monkeypatch):
    let_nobody_listen(monkeypatch)
    fit(planted)
    assert capsys.readouterr() == ("", "")
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]
    assert logger.level == logging.NOTSET


def test_verbose_prints_where_nobody_listens_and_leaves_nothing_behind(
    planted, capsys, monkeypatch
):
    let_nobody_listen(monkeypatch)
    fit(planted, verbose=True)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0].startswith("60 nodes: needs about")
    assert lines[1].startswith("start 1/1  sweep   1  change ")
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]
    assert logger.level == logging.NOTSET


def test_verbose_prints_nothing_where_logging_is_configured(planted, capsys, caplog):
    with caplog.at_level(logging.INFO, logger="nodeproof"):
        fit(planted, verbose=True)
    assert capsys.readouterr() == ("", "")
    assert {record.name for record in caplog.records} == {"nodeproof"}
    assert any("sweep" in record.getMessage() for record in caplog.records)


def test_sweeps_are_debugging_where_they_were_not_asked_for(planted, caplog):
    with caplog.at_level(logging.INFO, logger="nodeproof"):
        fit(planted)
    assert caplog.records == []
    with caplog.at_level(logging.DEBUG, logger="nodeproof"):
        fit(planted)
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


def test_listening_changes_no_bit(planted, caplog):
    quiet = fit(planted).proba_
    with caplog.at_level(logging.DEBUG, logger="nodeproof"):
        np.testing.assert_array_equal(fit(planted).proba_, quiet)


def test_after_an_error_nothing_stays_attached(monkeypatch):
    let_nobody_listen(monkeypatch)

    def fail() -> None:
        with shown(True):
            assert len(logger.handlers) == 2
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]


def test_a_callback_is_told_by_itself(planted, capsys, monkeypatch):
    let_nobody_listen(monkeypatch)
    seen = []
    fit(planted, verbose=seen.append)
    assert seen
    assert capsys.readouterr() == ("", "")

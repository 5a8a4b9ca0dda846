"""The validator of files that may hold anything: values of JSON, and which entries there are."""

from __future__ import annotations

import pytest

from nodeproof.storage import schema
from nodeproof.storage.schema import check_entries, dict_of, either, entries, list_of, one_of

#: values of JSON, as they are read
VALUES = [None, True, 0, 1, 3, -2, 3.0, 0.5, 10**400, 2**62, float("nan"), "", "ab12cd34", [], {}]


@pytest.mark.parametrize(
    ("check", "accepted"),
    [
        (schema.anything, VALUES),
        (schema.number, [0, 1, 3, -2, 3.0, 0.5, 2**62]),
        (schema.any_number, [0, 1, 3, -2, 3.0, 0.5, 2**62, float("nan")]),
        (schema.whole, [0, 1, 3, 3.0]),
        (schema.count, [0, 1, 3]),
        (schema.boolean, [True]),
        (schema.flag, [True, 0, 1]),
        (schema.text, ["", "ab12cd34"]),
        (schema.checksum, ["ab12cd34"]),
        (schema.or_none(schema.count), [None, 0, 1, 3]),
        (either(schema.boolean, schema.count), [True, 0, 1, 3]),
        (one_of("", "x"), [""]),
        (list_of(schema.count), [[]]),
        (dict_of(schema.count), [{}]),
        (entries({"n": schema.count}, optional=("n",)), [{}]),
    ],
)
def test_a_check_accepts_what_it_is_for_and_refuses_all_else(check, accepted):
    # By type and text: 1 == True, 3 == 3.0, and NaN is not even itself.
    found = [(type(value), str(value)) for value in VALUES if check(value)]
    assert found == [(type(value), str(value)) for value in accepted]


def test_checks_look_into_lists_and_objects():
    assert list_of(schema.count, most=2)([1, 2])
    assert not list_of(schema.count, most=2)([1, 2, 3])
    assert not list_of(schema.count)([1, "2"])
    assert dict_of(schema.text)({"a": "b"})
    assert not dict_of(schema.text)({"a": 1})
    point = entries({"x": schema.number, "name": schema.text}, optional=("name",))
    assert point({"x": 1})
    assert point({"x": 1, "name": "p"})
    for wrong in ({"x": "1"}, {"name": "p"}, {"x": 1, "y": 2}, {"x": 1, "name": 2}, [1]):
        assert not point(wrong)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"n": 1, "more": 2}, "the state has an entry 'more', which is unknown"),
        ({"n": "1"}, "n in the state is '1'"),
        ({"name": "a"}, "the state has no entry n"),
        ({"n": "long" * 100}, "n in the state is 'longlonglong...glonglonglong'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_entry_is_told_in_one_line(found, message):
    checks = {"n": schema.count, "name": schema.text}
    check_entries({"n": 1}, checks, optional=["name"])
    with pytest.raises(ValueError, match="the state") as caught:
        check_entries(found, checks, optional=["name"], what="the state")
    assert str(caught.value) == message


def test_names_in_messages_are_cut():
    with pytest.raises(ValueError, match="unknown") as caught:
        check_entries({"x\n" * 10_000: 1}, {})
    assert len(str(caught.value)) < 150
    assert "\n" not in str(caught.value)


def test_what_was_parsed_is_called_by_its_name():
    with pytest.raises(ValueError, match="state of the conversion is not UTF-8"):
        schema.parse_object(b"\xff", 10, "the state of the conversion")

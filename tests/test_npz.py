"""Archives are judged by their directory and headers, before memory is taken."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hostile.packing import bomb, npy, npz, zipped
from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.solvers import BlockCADO
from nodeproof.storage.npz import Header, open_npz
from nodeproof.storage.schema import Expected, check_layout, parse_object


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_arrays_come_back_as_they_were(tmp_path):
    arrays = {
        "a": np.arange(12.0).reshape(3, 4), "b": np.asfortranarray(np.eye(3, 2)),
        "c": np.array(["ann", "Zoë"]), "d": np.array(7), "e": np.zeros((0, 5), dtype=bool),
        "f": np.arange(3, dtype=">i4"),
    }  # fmt: skip
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        with open_npz(tmp_path / "a.npz") as archive:
            assert archive.files == list(arrays)
            for name, array in arrays.items():
                found = archive[name]
                assert (archive.header(name).shape, found.dtype) == (array.shape, array.dtype)
                np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("kind", ["<u4", ">u4"])
@pytest.mark.parametrize("letter", [0xD800, 0xDFFF, 0x110000, 0xFFFFFFFF])
def test_letters_that_are_not_unicode_are_refused(tmp_path, kind, letter):
    for code in (0x10FFFF, letter):
        texts = np.array([[0x61, code]], dtype=kind).view(kind.replace("u4", "U1"))
        np.savez(tmp_path / "a.npz", names=texts.T, one=texts[0, 1:].reshape(()))
        if code != letter:
            with open_npz(tmp_path / "a.npz") as archive:
                assert archive["names"].tolist() == [["a"], ["\U0010ffff"]]
    for name in ("names", "one"):
        with (
            pytest.raises(
                InputError, match=f"the array {name} holds characters that are not Unicode"
            ),
            open_npz(tmp_path / "a.npz") as archive,
        ):
            archive[name]


def test_what_is_not_asked_for_may_be_anything(tmp_path):
    objects = np.array([None], dtype=object)
    path = write(tmp_path / "a.npz", npz(x=np.ones(3), names=objects))
    with open_npz(path) as archive:
        assert archive["x"].tolist() == [1, 1, 1]
    with pytest.raises(InputError, match="Python objects"), open_npz(path) as archive:
        archive.headers()


def test_a_bomb_takes_no_memory(tmp_path, monkeypatch):
    members = {"lie.npy": bomb((2**40,), 2**24), "truth.npy": bomb((2**21,), 2**24)}
    path = write(tmp_path / "a.npz", zipped(members, zipfile.ZIP_DEFLATED))
    assert path.stat().st_size < 2**16
    monkeypatch.setattr("nodeproof.runtime.memory.available_memory", lambda: 2**23)
    tracemalloc.start()
    try:
        for name, word in (("lie", "where its shape"), ("truth", "16.8 MB of memory")):
            with pytest.raises(InputError, match=word), open_npz(path) as archive:
                archive[name]
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_what_memory_cannot_hold_is_refused_by_the_sum(tmp_path, monkeypatch):
    path = write(tmp_path / "a.npz", npz(a=np.ones(1000), b=np.ones(1000)))
    monkeypatch.setattr("nodeproof.runtime.memory.available_memory", lambda: 15_999)
    with open_npz(path) as archive:
        archive["a"]
    with pytest.raises(InputError, match="of memory"), open_npz(path) as archive:
        archive.headers()
    monkeypatch.setattr("nodeproof.runtime.memory.available_memory", lambda: 16_000)
    with open_npz(path) as archive:
        assert len(archive.headers()) == 2


def headers_of(**shapes: tuple[int, ...]) -> dict[str, Header]:
    return {name: Header(shape, np.dtype(float), 128) for name, shape in shapes.items()}


LAYOUT = {
    "rows": Expected("f", "n K", required=True),
    "given": Expected("f", "n | 0"),
    r"part_(\d+)": Expected("f", "K r{0}+1"),
    r"more_(\d+)": Expected("f", "n r{0}"),
}


def test_letters_stand_for_one_number_everywhere():
    headers = headers_of(rows=(5, 2), given=(0,), part_0=(2, 4), more_0=(5, 3), part_1=(2, 1))
    assert check_layout(headers, LAYOUT) == {"n": 5, "K": 2, "r0": 3, "r1": 0}


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"given": (4,)}, r"given has the shape \(4,\), not \(n\) or \(0\) with n = 5"),
        ({"given": (5, 1)}, "given has the shape"),
        ({"part_0": (3, 4)}, "part_0 has the shape"),
        ({"part_0": (2, 0)}, "part_0 has the shape"),
        ({"part_0": (2, 4), "more_0": (5, 4)}, "more_0 has the shape"),
        ({"other": (1,)}, "'other' that has no place"),
    ],
)
def test_shapes_that_disagree_are_named(wrong, word):
    with pytest.raises(ValueError, match=word):
        check_layout(headers_of(rows=(5, 2), **wrong), LAYOUT)


def test_what_is_required_must_be_there():
    with pytest.raises(ValueError, match="no array rows"):
        check_layout(headers_of(given=(3,)), LAYOUT)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (b'{"a": 1, "a": 2}', "twice"),
        (b"[" * 100_000, "deep"),
        (b"\xff", "UTF-8"),
        (b"{'a': 1}", "not JSON"),
        (b"3", "no JSON object"),
        (b" " * 101, "101 bytes"),
    ],
)
def test_headers_that_are_none_are_refused(text, word):
    most = 100 if text.startswith(b" ") else 10**6
    with pytest.raises(ValueError, match=word):
        parse_object(text, most)


# Models. ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    data = make_planted(cluster_size=20, p=0.4, random_state=0)
    clf = NodeClassifier(solver=BlockCADO(random_state=0, n_jobs=2), n_jobs=2, random_state=0)
    clf.fit(data.X, data.y, graph=data.graph)
    return clf


def changed(clf, path, change):
    clf.save(path)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    meta = json.loads(arrays["meta"].tobytes())
    change(meta)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez(path, **arrays)
    return path


def test_settings_of_the_machine_are_neither_written_nor_taken_from_a_file(model, tmp_path):
    def see(meta):
        own = {"engine": "dask", "n_jobs": 10**9, "verbose": True}
        assert all(not meta["params"][name] for name in own)
        meta["params"].update(own)
        meta["params"]["solver"].update(engine="dask", checkpoint="/etc", n_jobs=10**9)

    clf = NodeClassifier.load(changed(model, tmp_path / "m.npz", see))
    assert (clf.engine, clf.n_jobs, clf.verbose) == (None, None, False)
    assert (clf.solver.engine, clf.solver.n_jobs, clf.solver.checkpoint) == (None, None, None)
    np.testing.assert_array_equal(clf.proba_, model.proba_)


def test_a_newer_version_is_told_before_anything_else_is_looked_at(model, tmp_path):
    path = changed(model, tmp_path / "m.npz", lambda meta: meta.update(version=99, news=[1]))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    huge = npy(np.ones(3), shape=(2**40, 3))
    path.write_bytes(zipped({**members, "proba.npy": huge, "news.npy": b"of another kind"}))
    with pytest.raises(InputError, match=r"in format 99.*upgrade"):
        NodeClassifier.load(path)


def test_a_history_too_long_to_be_read_is_not_written(model, tmp_path, monkeypatch):
    monkeypatch.setattr("nodeproof.saving.model.LARGEST", 100)
    with pytest.raises(InputError, match="too long for a model file"):
        model.save(tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []

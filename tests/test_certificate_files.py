"""A certificate that was damaged in its file is refused."""

import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from certificate_helpers import (
    changed,
    make_proof,
    refused,
    rewrite,
)
from nodeproof.certificate import Certificate
from nodeproof.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", params=["small", "costs", "graph", "blocks"])
def proof(request):
    return make_proof(request.param)


@pytest.fixture(scope="module")
def costs_proof():
    return make_proof("costs")


def test_saved_and_loaded_it_is_the_same(proof, tmp_path):
    path = tmp_path / "proof.npz"
    proof.save(path)
    again = Certificate.load(path)
    check = again.verify(proof.instance)
    assert check, check.reason
    assert again.claim() == proof.claim()
    assert again.status == proof.status
    assert again.explain() == proof.explain()
    mine, theirs = proof.to_arrays(), again.to_arrays()
    assert mine.keys() == theirs.keys()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    other = changed(again.labels, 0, 1 - again.labels[0] % 2)
    refused(replace(again, labels=other), proof.instance)


def test_how_it_was_found_is_not_kept(proof, tmp_path):
    proof.save(tmp_path / "proof.npz")
    again = Certificate.load(tmp_path / "proof.npz")
    assert again.loaded
    assert not proof.loaded
    assert again.history == []
    assert len(again.moved) == 0
    assert np.isnan(again.seconds)
    assert set(again.method.split(", ")) <= {"potts", "spectral", ""}
    assert "nan" not in repr(again._repr_html_())


def test_what_is_not_applicable_can_be_saved(tmp_path):
    from nodeproof.certificate.labelling.certify import _nothing

    nothing = _nothing(np.zeros(3, dtype=np.int64), 2, "son")
    nothing.save(tmp_path / "nothing.npz")
    again = Certificate.load(tmp_path / "nothing.npz")
    assert again.status == "not applicable"
    assert again.summary()["objective"] is None
    assert "proves nothing" in refused(replace(again, loaded=False))
    assert "nothing to check it against" in refused(again)


@pytest.fixture
def saved(costs_proof, tmp_path):
    path = tmp_path / "proof.npz"
    costs_proof.save(path)
    return path


def load_refuses(path, match=None):
    with pytest.raises(InputError, match=match) as caught:
        Certificate.load(path)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)


def test_files_that_are_damaged_say_so_in_one_line(saved):
    content = saved.read_bytes()
    for size in (0, 1, 20, len(content) // 2, len(content) - 10):
        saved.write_bytes(content[:size])
        load_refuses(saved)
    for place in range(200, len(content), len(content) // 7):
        flipped = bytearray(content)
        flipped[place] ^= 0xFF
        saved.write_bytes(bytes(flipped))
        try:  # where it still is an archive, verify has the word
            Certificate.load(saved)
        except InputError as error:
            shown = str(error)
        else:
            shown = ""
        assert "\n" not in shown


def test_other_files_are_no_certificates(saved, tmp_path):
    load_refuses(tmp_path / "missing.npz", "there is no certificate")
    saved.write_text("status: certified\n")
    load_refuses(saved)
    np.savez(saved, labels=np.zeros(3))
    load_refuses(saved)
    np.savez(saved, meta=np.frombuffer(b'{"format": "nodeproof-model"}', dtype=np.uint8))
    load_refuses(saved, "is not a nodeproof certificate")
    np.savez(saved, meta=np.frombuffer(b"[1, 2]", dtype=np.uint8))
    load_refuses(saved, "its header is no JSON object")
    np.savez(saved, meta=np.frombuffer(b"\xff\xfe", dtype=np.uint8))
    load_refuses(saved)
    with zipfile.ZipFile(saved, "w") as archive:
        archive.writestr("meta.npy", b"not an array")
    load_refuses(saved)
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    saved.write_bytes(buffer.getvalue())
    load_refuses(saved)


def test_pickles_are_not_read(saved):
    objects = np.array([print, None], dtype=object)
    with np.load(saved) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(saved, **(arrays | {"eta": objects}))
    load_refuses(saved, "holds Python objects")


def test_newer_formats_are_refused_by_name(saved):
    rewrite(saved, meta={"version": 3})
    load_refuses(saved, "format 3.*reads format 2")


def test_older_formats_are_refused_by_name(saved):
    rewrite(saved, meta={"version": 1})
    load_refuses(saved, "format 1.*reads format 2")


@pytest.mark.parametrize(
    "name",
    [
        "labels",
        "possible",
        "costs",
        "weights",
        "indices",
        "indptr",
        "eta",
        "scales",
        "step0_open",
        "step0_nu",
    ],
)
def test_missing_arrays_are_refused(saved, name):
    rewrite(saved, **{name: None})
    load_refuses(saved)


def test_arrays_of_other_kinds_are_refused(saved, costs_proof):
    with np.load(saved) as archive:
        arrays = {name: archive[name] for name in archive.files}
    changes = [
        {"labels": arrays["labels"].astype(float)},
        {"step0_nu": arrays["step0_nu"].astype(complex)},
        {"costs": arrays["costs"].astype("U8")},
        {"costs": arrays["costs"][0]},
        {"scales": np.array([1.0])},
        {"possible": arrays["labels"]},
        {"possible": arrays["possible"][:, 1:]},
        {"anchors": arrays["labels"].astype(float)},
        {"indices": arrays["indices"] + 10**6},
        {"indices": arrays["indices"] - 1000},
        {"indices": arrays["indices"].astype(float)},
        {"indptr": arrays["indptr"][::-1].copy()},
        {"indptr": arrays["indptr"][:-1]},
        {"weights": np.ones(3)},
        {"step0_nu": arrays["step0_nu"][1:]},
        {"step0_open": arrays["step0_open"][1:]},
        {"step0_raised": arrays["step0_open"]},
        {"step9_open": arrays["step0_open"]},
        {"surprise": np.ones(3)},
        {"step0_surprise": np.ones(3)},
    ]
    for change in changes:
        costs_proof.save(saved)
        rewrite(saved, **change)
        load_refuses(saved)


def test_words_in_place_of_numbers_are_refused(saved, costs_proof):
    for change in (
        {"objective": "low"},
        {"exact": "yes"},
        {"tolerance": None},
        {"unique": 1.5},
        {"renaming": 0},
        {"reason": 3},
    ):
        costs_proof.save(saved)
        rewrite(saved, meta=change)
        load_refuses(saved)


def test_numbers_changed_in_a_file_are_refused_by_verify(saved, costs_proof):
    z, arrays = costs_proof.labels, costs_proof.to_arrays()
    for change in (
        {"labels": changed(z, 0, (z[0] + 1) % 3)},
        {"step0_nu": arrays["step0_nu"] * np.nan},
        {"step0_open": np.zeros_like(arrays["step0_open"])},
        {"possible": ~arrays["possible"]},
        {"meta": {"objective": costs_proof.objective - 1.0}},
        {"meta": {"objective": np.nan}},
        {"meta": {"lower_bound": costs_proof.lower_bound + 100.0}},
        {"meta": {"tolerance": 1e9, "lower_bound": costs_proof.lower_bound - 1.0}},
    ):
        costs_proof.save(saved)
        rewrite(saved, **change)
        refused(Certificate.load(saved), costs_proof.instance)


def test_links_and_costs_that_are_no_numbers_are_refused(saved, costs_proof):
    n, K = costs_proof.instance.costs.shape
    for change in (
        {"scales": np.array([np.nan, 0.0])},
        {"eta": np.full(n, 1e300)},
        {"eta": np.full(n, -1.0)},
        {"costs": np.full((n, K), np.inf)},
    ):
        costs_proof.save(saved)
        rewrite(saved, **change)
        with pytest.raises(InputError, match="its links"):
            Certificate.load(saved)


def test_a_file_is_written_whole_or_not_at_all(costs_proof, tmp_path):
    path = tmp_path / "proof.npz"
    costs_proof.save(path)
    costs_proof.save(str(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["proof.npz"]
    with pytest.raises(InputError, match="nowhere"):
        costs_proof.save(tmp_path / "nowhere" / "proof.npz")

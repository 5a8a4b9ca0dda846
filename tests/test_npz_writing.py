"""Archives are written as NumPy writes them, with any version of it, but never with a pickle."""

import io

import numpy as np
import pytest

from nodeproof.storage.npz import write_npz

ARRAYS = {
    "meta": np.frombuffer(b"{}", dtype=np.uint8),
    "names": np.array(["a", "π"]),
    "proba": np.asfortranarray(np.linspace(0, 1, 6).reshape(2, 3)),
    "none": np.empty((0, 3), dtype=np.float32),
    "number": 2.5,
}


@pytest.mark.parametrize(
    ("packed", "numpy_writes"), [(False, np.savez), (True, np.savez_compressed)]
)
def test_the_bytes_are_those_of_numpy(packed, numpy_writes):
    ours, theirs = io.BytesIO(), io.BytesIO()
    write_npz(ours, ARRAYS, packed=packed)
    numpy_writes(theirs, **ARRAYS)
    assert ours.getvalue() == theirs.getvalue()
    with np.load(io.BytesIO(ours.getvalue()), allow_pickle=False) as read:
        assert read.files == list(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(read[name], array)


def test_what_could_only_be_pickled_is_an_error():
    with pytest.raises(ValueError, match="allow_pickle"):
        write_npz(io.BytesIO(), {"a": np.array([object()])})

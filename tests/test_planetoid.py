"""The raw Planetoid files: what they say, and that nothing in them is ever run."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof.datasets import read_graph
from nodeproof.datasets.pickles import read_pickle
from nodeproof.errors import InputError
from planetoid_helpers import PARTS, citations, python2, write_planetoid


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_graph(path)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


# What the files say


@pytest.mark.parametrize("protocol", [-2, 0, 1, 2, 4, 5])
def test_files_of_every_python_are_read(tmp_path: Path, protocol: int) -> None:
    parts = citations()
    data = read_graph(write_planetoid(tmp_path, parts, protocol=protocol))
    links = data.graph.tocoo()
    pairs = {(int(u), int(v)) for u, v in zip(links.row, links.col, strict=True) if u < v}
    assert pairs == {(0, 1), (0, 2), (2, 5), (4, 6)}
    assert (data.graph != data.graph.T).nnz == 0
    assert set(data.graph.data) == {1.0}
    assert sp.issparse(data.X)
    assert data.X.dtype == np.float32
    full = np.arange(1, 22, dtype=np.float32).reshape(7, 3) % 4
    full[5] = 0
    assert np.array_equal(data.X.toarray(), full)
    assert data.y is not None
    assert data.y.tolist() == [0, 1, 1, 0, 1, -1, 0]
    assert {part: np.flatnonzero(mask).tolist() for part, mask in data.masks.items()} == {
        "train": [0, 1], "validation": [2, 3], "test": [4, 6],
    }  # fmt: skip
    assert data.training_labels().tolist() == [0, 1, -1, -1, -1, -1, -1]
    assert data.names is None
    assert data.notes == [
        "1 self loop in ind.tiny.graph dropped",
        "1 node without features and class",
    ]


def test_rows_of_test_nodes_follow_the_index(tmp_path: Path) -> None:
    parts = citations(gap=False)
    data = read_graph(write_planetoid(tmp_path, parts))
    assert data.X is not None
    for row, node in enumerate(parts["test.index"]):
        assert np.array_equal(data.X[[node]].toarray(), parts["tx"][[row]].toarray())
        assert data.y is not None
        assert data.y[node] == parts["ty"][row].argmax()
    assert len(data.notes) == 1


def test_the_path_may_be_the_folder_a_file_or_the_beginning(tmp_path: Path) -> None:
    write_planetoid(tmp_path, citations())
    for name in ("", "ind.tiny", "ind.tiny.x", "ind.tiny.test.index", "ind.tiny.graph"):
        assert read_graph(tmp_path / name).graph.shape == (7, 7)
    write_planetoid(tmp_path, citations(), name="other")
    assert f"e.g. {tmp_path / 'ind.other'}" in refusal(tmp_path)
    assert read_graph(tmp_path / "ind.other").graph.shape == (7, 7)
    with pytest.raises(InputError, match="holds no Planetoid files"):
        read_graph(tmp_path / "ind.third", format="planetoid")


@pytest.mark.parametrize(
    ("part", "content", "problem"),
    [
        ("y", np.eye(3, 2, dtype=np.int32), "3 rows for 2 rows of features"),
        ("ty", np.eye(3, 2, dtype=np.int32), "3 rows for 2 rows of features"),
        ("test.index", [6], "1 rows for 2 rows of features"),
        ("test.index", [6, 6], "lists a node twice"),
        ("test.index", [6, 1], "lists a node twice, or one of the 4"),
        ("test.index", ["six", 4], "cannot read"),
        ("tx", sp.csr_matrix(np.ones((2, 5), np.float32)), "has 5 features, but"),
        ("allx", np.full((4, 3), np.nan, np.float32), "row 0, column 0"),
        ("tx", sp.csr_matrix(np.array([[0, np.inf, 0], [0, 0, 0]])), "row 0, column 1"),
        ("allx", np.ones(4, np.float32), "holds no matrix of features"),
        ("ally", np.ones((4, 2), np.int32), "row 0 is in several classes"),
        ("ally", np.full((4, 2), 3, np.int32), "holds no 0/1 matrix"),
        ("y", {0: [1]}, "holds no 0/1 matrix"),
        ("graph", np.eye(3), "holds no lists of neighbours"),
        ("graph", {0: [1], 1: [9]}, "a link names node 9, but nodes run from 0 to 6"),
        ("graph", {0: [-1]}, "a link names node -1"),
        ("graph", {0: [[1]]}, "lists of nodes"),
        ("graph", {0: ["1"]}, "lists of nodes"),
        ("graph", {0: True}, "lists of nodes"),
    ],
)
def test_faults_are_named_with_their_file(
    tmp_path: Path, part: str, content: Any, problem: str
) -> None:
    message = refusal(write_planetoid(tmp_path, citations() | {part: content}))
    assert f"ind.tiny.{part}" in message
    assert problem in message


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_file_is_named(tmp_path: Path, part: str) -> None:
    write_planetoid(tmp_path, citations())
    (tmp_path / f"ind.tiny.{part}").unlink()
    with pytest.raises(InputError, match=r"does not exist|holds no Planetoid"):
        read_graph(tmp_path, format="planetoid")


@pytest.mark.parametrize("part", PARTS[:-1])
def test_a_file_that_was_cut_off_is_named(tmp_path: Path, part: str) -> None:
    write_planetoid(tmp_path, citations())
    path = tmp_path / f"ind.tiny.{part}"
    whole = path.read_bytes()
    for length in (0, 1, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        message = refusal(tmp_path)
        assert str(path) in message
        assert "is the file complete?" in message


# What the files must not do


class Call:
    """Pickles as a call of any function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def touch(path: Path) -> str:
    return f"touch {path}"


def attacks(mark: Path) -> dict[str, bytes]:
    """Pickles that would make the file ``mark`` if anything in them was run."""
    system, write = Call(os.system, touch(mark)), f"open({str(mark)!r}, 'w')"
    array = np.empty(2, dtype=object)
    array[:] = [system, 1]
    csr = sp.csr_matrix(np.eye(2))
    csr.indices = array
    line = touch(mark).encode()
    found = {f"os.system, protocol {p}": pickle.dumps(system, p) for p in range(6)}
    return found | {
        "eval": pickle.dumps(Call(eval, write)),
        "exec": pickle.dumps(Call(exec, write)),
        "in a list": pickle.dumps({0: [system]}),
        "as a key": pickle.dumps({Call(eval, write): [1]}),
        "in an array of objects": pickle.dumps(array, 2),
        "in a sparse matrix": pickle.dumps(csr, 2),
        "INST": b"(S'" + line + b"'\nios\nsystem\n.",
        "OBJ": b"(cos\nsystem\nS'" + line + b"'\no.",
        "GLOBAL with a path": b"cnumpy\nf2py.os.system\n(S'" + line + b"'\ntR.",
        "STACK_GLOBAL with a path": b"\x80\x04\x8c\x05numpy\x8c\x0ef2py.os.system\x93\x8c"
        + bytes([len(line)]) + line + b"\x85R.",
        "after a good array": python2(np.eye(2))[:-1] + b"0" + pickle.dumps(system, 0),
        "as a dtype's state": b"cnumpy\ndtype\n(S'i4'\ntR(K\x03S'<'\n"
        + pickle.dumps(system, 0)[:-1] + b"NNtb.",
    }  # fmt: skip


@pytest.mark.parametrize("name", attacks(Path("x")))
def test_no_function_is_ever_called(tmp_path: Path, name: str) -> None:
    mark = tmp_path / "mark"
    folder = write_planetoid(tmp_path / "set", citations() | {"graph": attacks(mark)[name]})
    message = refusal(folder)
    assert "ind.tiny.graph is refused: it asks for" in message
    assert not mark.exists()


def test_those_attacks_would_work_elsewhere(tmp_path: Path) -> None:
    """An attack that does nothing would prove nothing."""
    for name, attack in attacks(tmp_path / "mark").items():
        if "path" in name:
            continue  # not every version of numpy has it
        with contextlib.suppress(Exception):  # once it is done, what follows may fail
            pickle.loads(attack, encoding="latin1")
        assert (tmp_path / "mark").exists(), name
        (tmp_path / "mark").unlink()


@pytest.mark.parametrize(
    "name",
    [
        "builtins eval", "builtins exec", "builtins getattr", "builtins __import__",
        "builtins compile", "builtins open", "builtins type", "builtins dict",
        "__builtin__ eval", "os system", "posix system", "nt system", "subprocess Popen",
        "importlib import_module", "operator attrgetter", "functools partial", "types CodeType",
        "codecs encode", "_codecs decode", "copyreg add_extension", "copyreg __newobj__",
        "collections OrderedDict", "numpy load", "numpy fromfile", "numpy memmap", "numpy matrix",
        "numpy frompyfunc", "numpy vectorize", "numpy.core.multiarray scalar",
        "numpy._core.multiarray fromfile", "numpy.testing._private.utils runstring",
        "scipy.sparse._csr os", "scipy.sparse csr_matrix", "scipy.io loadmat", "pickle loads",
        "numpy ndarray.tofile", "collections defaultdict.fromkeys", "nodeproof.cli main",
        "antigravity geohash",
    ],
)  # fmt: skip
def test_names_beyond_the_few_are_refused_unseen(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    module, function = name.split()
    for content in (
        f"c{module}\n{function}\n.".encode(),
        b"\x80\x04" + b"".join(b"\x8c" + bytes([len(t)]) + t.encode() for t in (module, function))
        + b"\x93.",
    ):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(InputError, match="is refused: it asks for") as caught:
            read_pickle(path)
        assert f"{module}.{function}" in str(caught.value)
    assert "antigravity" not in sys.modules


NAMED = {"_codecs encode", "builtins list", "builtins object", "collections defaultdict",
         "copyreg _reconstructor", "numpy dtype", "numpy ndarray", "scipy.sparse._csr csr_matrix",
         "numpy.core.multiarray _reconstruct", "numpy._core.numeric _frombuffer"}  # fmt: skip


@pytest.mark.parametrize("name", sorted(NAMED))
@pytest.mark.parametrize(
    "use",
    [
        b".",  # the name itself
        b"(tR.",  # called without arguments
        b"(NNNNNtR.",  # called with too many
        b"(S'a'\nS'rot13'\ntR.",  # called with text
        b"}S'found'\nK\x01sb.",  # its attributes changed
        b"(N}S'__doc__'\nS'x'\nstb.",  # its slots changed
        b")\x81.",  # made without its constructor
        b")\x81}b.",  # made, then given a state
        b")\x81(NNNNNtb.",
        b"K\x01K\x02s.",  # used as a dict
        b"K\x01a.",  # used as a list
    ],
)
def test_what_may_be_named_cannot_be_misused(tmp_path: Path, name: str, use: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\x80\x02c" + name.replace(" ", "\n").encode() + b"\n" + use)
    if name == "collections defaultdict" and use in (b"(tR.", b")\x81."):
        assert read_pickle(path) == {}
    else:
        with pytest.raises(InputError, match=str(path)):
            read_pickle(path)
    path.write_bytes(python2(np.arange(3)))
    assert np.array_equal(read_pickle(path), np.arange(3))
    path.write_bytes(python2(sp.csr_matrix(np.eye(2))))
    assert np.array_equal(read_pickle(path).toarray(), np.eye(2))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "found",
    [
        np.array([1, "a", None], dtype=object),
        np.array([[1, 2], [3, 4]], dtype=object),
        np.array(["text"]),
        np.array([1j]),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.float64(3.0),
        [1, 2],
        "text",
        None,
        {"a": [1]},
        {1: {2: 3}},
        {1.5: [2]},
        {1: [2.5]},
    ],
)
def test_other_things_than_numbers_are_refused(tmp_path: Path, found: Any) -> None:
    for protocol in (2, 4, 5):
        (tmp_path / "file").write_bytes(pickle.dumps(found, protocol))
        with pytest.raises(InputError, match="is refused"):
            read_pickle(tmp_path / "file")


def test_arrays_that_lie_about_their_size_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    whole = python2(np.arange(4, dtype=np.int32))
    shape = python2((4,))[2:-1]
    for lie in ((5,), (2**30, 2**30), (-4,), (4, 0), (True, 4), (None,), "ab"):
        fake = pickle.dumps(lie, 2)[2:-1]
        path.write_bytes(whole.replace(shape, fake))
        with pytest.raises(InputError, match="an array"):
            read_pickle(path)
    csr = sp.csr_matrix(np.eye(3, dtype=np.float32))
    for key, lie in (
        ("indices", np.array([0, 1, 7])),
        ("indptr", np.array([0, 3, 1, 3])),
        ("indices", np.array([0.0, 1.0, 2.0])),
    ):
        bad = csr.copy()
        setattr(bad, key, lie)
        path.write_bytes(python2(bad))
        with pytest.raises(InputError, match=str(path)):
            read_pickle(path)


def test_parts_of_the_wrong_kind_are_refused(tmp_path: Path) -> None:
    array = python2(np.arange(3, dtype=np.int32))
    content = python2(np.arange(3, dtype=np.int32).tobytes())[2:-1]
    assert content in array
    for fake in (
        b"ccollections\ndefaultdict\ncnumpy\nndarray\n\x85R.",
        b"ccopy_reg\n_reconstructor\n(cnumpy\ndtype\nc__builtin__\nobject\nNtR.",
        b"c_codecs\nencode\n(U\x01aU\x05rot13tR.",
        array.replace(content, b"](K\x01K\x02K\x03e"),
        array.replace(content, b"N"),
        array.replace(b"U\x01b\x87R", b"U\x01b\x87R0").replace(
            b"cnumpy\nndarray", b"cnumpy\ndtype"
        ),
        array.replace(b"NNNJ", b"](K\x01eNNJ"),
    ):
        (tmp_path / "file").write_bytes(fake)
        with pytest.raises(InputError, match="is refused"):
            read_pickle(tmp_path / "file")


def test_damaged_streams_end_in_one_clear_error(tmp_path: Path) -> None:
    """Bytes changed at random: never anything but an array or an InputError."""
    whole = python2(sp.csr_matrix(np.eye(3, dtype=np.float32)))
    rng = np.random.default_rng(0)
    path = tmp_path / "file"
    for _ in range(300):
        content = bytearray(whole)
        for place in rng.integers(2, len(whole), size=3):
            content[place] = rng.integers(256)
        path.write_bytes(content)
        with contextlib.suppress(InputError):
            read_pickle(path)


def test_a_small_file_cannot_ask_for_much_memory(tmp_path: Path) -> None:
    for content in (b"]r\xff\xff\xff\x7f.", b"]p4000000000\n.", b"B\xff\xff\xff\x7fabc."):
        (tmp_path / "file").write_bytes(b"\x80\x02" + content)
        with pytest.raises(InputError, match=r"asks for the place|cannot read"):
            read_pickle(tmp_path / "file")


def test_persistent_ids_and_extensions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"Pevil\n.", b"\x80\x02S'evil'\nQ.", b"\x80\x02\x82\x01."):
        path.write_bytes(content)
        with pytest.raises(InputError, match="asks for the instruction"):
            read_pickle(path)


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"cos\n\x1b[2Jsystem\n.")
    with pytest.raises(InputError) as caught:
        read_pickle(tmp_path / "file")
    assert "\x1b" not in str(caught.value)


# The real files, where they are


@pytest.mark.parametrize(
    ("name", "nodes", "links", "features", "train", "unknown"),
    [
        ("cora", 2708, 5278, 1433, 140, 0),
        ("citeseer", 3327, 4552, 3703, 120, 15),
        ("pubmed", 19717, 44324, 500, 60, 0),
    ],
)
def test_the_citation_sets_have_their_known_sizes(
    name: str, nodes: int, links: int, features: int, train: int, unknown: int
) -> None:
    from nodeproof.datasets import load

    if not os.environ.get("NODEPROOF_DATA"):
        pytest.skip("set NODEPROOF_DATA to a folder with the data sets")
    data = load(name)
    assert data.graph.shape == (nodes, nodes)
    assert data.graph.nnz == 2 * links
    assert data.X is not None
    assert data.X.shape == (nodes, features)
    assert int((~data.known).sum()) == unknown
    sizes = {part: int(mask.sum()) for part, mask in data.masks.items()}
    assert sizes == {"train": train, "validation": 500, "test": 1000}

"""Load models, certificates, checkpoints and graph folders that were damaged or forged.

Bytes of real files are changed: of the file as it lies on disk, or of one of the arrays inside
it, put back with the right checksum. Loading ends with a documented error, or what was loaded
works; a certificate that still verifies must be true.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris
import numpy as np
import scipy.sparse as sp

from harness import is_documented, run
from nodeproof import NodeClassifier
from nodeproof.certificate import Certificate
from nodeproof.solvers.checkpoint import Checkpoint
from nodeproof.storage.graph_folder import write_graph_folder
from nodeproof.terms import Covariance, Labels, Softmax

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from certificate_helpers import why_false

FOLDER = Path(tempfile.mkdtemp(prefix="nodeproof-fuzz-"))

_RNG = np.random.default_rng(0)
_N = 12
_Z = np.arange(_N) % 2
_X = _RNG.standard_normal((_N, 2)) + 3.0 * _Z[:, None]
_WORDS = sp.csr_array(_RNG.poisson(1.0, (_N, 4)) + 2.0 * np.eye(4)[_Z])
_Y = np.where(np.arange(_N) < 8, _Z, -1)
_UPPER = np.triu(_RNG.random((_N, _N)) < np.where(np.equal.outer(_Z, _Z), 0.8, 0.1), 1)
_GRAPH = (_UPPER + _UPPER.T) * 1.0

# What a byte, or a few in a row, may be replaced by.
_ODD = (
    b"\x00", b"\xff", b"\x7f", b"\x80", b"-", b"9", b"[", b"}", b'"', b"1e999", b"NaN", b"null",
    b"\xff" * 4, b"\xff" * 8, b"\x00" * 8,
    np.float64(np.nan).tobytes(), np.float32(np.inf).tobytes(),
    np.int64(-1).tobytes(), np.int64(2**62).tobytes(), np.int32(2**31 - 1).tobytes(), b"<i8", b"|O",
    b"True", b"100000000000",
)  # fmt: skip


class EverySweep(Checkpoint):
    """Saves after every sweep."""

    def due(self) -> bool:
        return True


def _fit_checkpointed(folder: Path, cut: bool) -> NodeClassifier:
    sweeps = 0

    def watch(progress: Any) -> None:
        nonlocal sweeps
        sweeps += 1
        if cut and sweeps == 3:
            raise KeyboardInterrupt

    clf = NodeClassifier(
        terms=[Labels()], weights="calibrated", n_init=2, tol=0.0, max_iter=6, random_state=0,
        n_jobs=1, verbose=watch,
    )  # fmt: skip
    return clf.fit(y=_Y, graph=_GRAPH, checkpoint=EverySweep(folder))


def make_samples() -> dict[str, bytes]:
    """Return the bytes of real files, by what they are."""
    place = FOLDER / "made"
    place.mkdir()
    common: dict[str, Any] = {"random_state": 0, "n_jobs": 1, "max_iter": 20, "n_init": 1}
    names = np.where(_Y < 0, "", np.array(["red", "blue"])[_Z])
    fits = {
        "links": NodeClassifier(**common).fit(y=names, graph=_GRAPH),
        "dense": NodeClassifier(terms=[Covariance(intercept=True), Labels()], **common).fit(
            _X, _Y, graph=2.5 * _GRAPH
        ),
        "words": NodeClassifier(terms=[Softmax(hops=2), Labels()], **common).fit(
            _WORDS, _Y, graph=_GRAPH
        ),
        "features": NodeClassifier(**common).fit(_X * 1e60, _Y),
        "paper": NodeClassifier(weights=(1.0, 2.5, 13.0), **common).fit(_X, _Y, graph=_GRAPH),
    }
    found = {}
    for name, clf in fits.items():
        clf.save(place / "model.npz")
        found[f"model {name}"] = (place / "model.npz").read_bytes()
    for n in (5, 7):
        small = NodeClassifier(terms=[Labels()], **common).fit(y=_Y[:n], graph=_GRAPH[:n, :n])
        small.certify(time_budget=1.0).save(place / "proof.npz")
        found[f"certificate {n}"] = (place / "proof.npz").read_bytes()
    try:
        _fit_checkpointed(place / "state", cut=True)
    except KeyboardInterrupt:
        found["checkpoint state.npz"] = (place / "state" / "state.npz").read_bytes()
    write_graph_folder(place / "graph", 0.5 * _GRAPH, ids=[f"n{v}" for v in range(_N)])
    for file in sorted((place / "graph").iterdir()):
        found[f"folder {file.name}"] = file.read_bytes()
    return found


def mutate(draw: Any, content: bytes) -> bytes:
    """Return the bytes with some of them changed, left out or added."""
    for _ in range(draw.ConsumeIntInRange(0, 4)):
        at = draw.ConsumeIntInRange(0, max(len(content) - 1, 0))
        what = draw.ConsumeIntInRange(0, 5)
        if what == 0:
            content = content[:at] + bytes([draw.ConsumeIntInRange(0, 255)]) + content[at + 1 :]
        elif what == 1:
            odd = _ODD[draw.ConsumeIntInRange(0, len(_ODD) - 1)]
            content = content[:at] + odd + content[at + len(odd) :]
        elif what == 2:
            content = content[:at] + content[at + draw.ConsumeIntInRange(1, 64) :]
        elif what == 3:
            odd = _ODD[draw.ConsumeIntInRange(0, len(_ODD) - 1)]
            content = content[:at] + odd + content[at:]
        elif what == 4:
            content = content[:at]
        else:
            content = content + content[at : at + 16]
    return content


def mutate_member(draw: Any, content: bytes) -> bytes:
    """Return an archive with one of its members changed, renamed, left out or doubled."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    at = draw.ConsumeIntInRange(0, len(members) - 1)
    name, inside = members[at]
    what = draw.ConsumeIntInRange(0, 9)
    if what == 0:
        del members[at]
    elif what == 1:
        members.append((name, mutate(draw, inside)))
    elif what == 2:
        members[at] = (members[draw.ConsumeIntInRange(0, len(members) - 1)][0], inside)
    elif what == 3:
        members[at] = (name, members[draw.ConsumeIntInRange(0, len(members) - 1)][1])
    else:
        members[at] = (name, mutate(draw, inside))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for member, content in members:
            archive.writestr(member, content)
    return file.getvalue()


def try_model(content: bytes, name: str) -> None:
    path = FOLDER / "model.npz"
    path.write_bytes(content)
    clf = NodeClassifier.load(path)
    labels, rows = clf.predict(), clf.predict_proba()
    assert len(labels) == len(rows), "lengths"
    assert np.isfinite(rows).all(), "rows are not finite"
    X = _WORDS[:2] if name == "words" else _X[:2] * (1e60 if name == "features" else 1.0)
    for call in (
        lambda: clf.predict_proba(None if name == "links" else X, graph=None),
        lambda: clf.predict(None if name == "links" else X, graph=_GRAPH[:2]),
        lambda: clf.certify(time_budget=0.1),
        lambda: clf.query(2, strategy="uncertainty"),
        lambda: clf.save(FOLDER / "again.npz"),
    ):
        _attempt(call)


def _attempt(call: Callable[[], Any]) -> None:
    try:
        call()
    except Exception as error:
        if not is_documented(error):
            raise


def try_certificate(content: bytes) -> None:
    path = FOLDER / "proof.npz"
    path.write_bytes(content)
    proof = Certificate.load(path)
    repr(proof)
    instance = proof.instance
    if instance is not None and instance.n_classes**instance.n_nodes <= 3000:
        # Whoever accepts any tolerance still accepts nothing that is false.
        named = proof.tolerance if 0 <= proof.tolerance < np.inf else None
        if proof.verify(instance) or proof.verify(instance, tolerance=named):
            said = why_false(proof.claim(), proof.to_arrays())
            assert not said, said


def try_checkpoint(content: bytes, name: str) -> None:
    folder = FOLDER / "state"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    clf = _fit_checkpointed(folder, cut=False)
    assert np.isfinite(clf.proba_).all(), "rows are not finite"


def try_folder(content: bytes, name: str) -> None:
    shutil.copytree(FOLDER / "made" / "graph", FOLDER / "graph")
    (FOLDER / "graph" / name).write_bytes(content)
    clf = NodeClassifier(terms=[Labels()], max_iter=3, n_init=1, n_jobs=1, random_state=0)
    clf.fit(y=_Y, graph=FOLDER / "graph")
    assert np.isfinite(clf.proba_).all(), "rows are not finite"


SAMPLES = make_samples()


def load(sample: str, content: bytes) -> None:
    """Load what was a sample, and use it."""
    for old in FOLDER.iterdir():
        if old.name != "made":
            old.unlink() if old.is_file() else shutil.rmtree(old)
    kind, name = sample.split(" ", 1)
    if kind == "model":
        try_model(content, name)
    elif kind == "certificate":
        try_certificate(content)
    elif kind == "checkpoint":
        try_checkpoint(content, name)
    else:
        try_folder(content, name)


def test_one(data: bytes) -> None:
    draw = atheris.FuzzedDataProvider(data)
    sample = sorted(SAMPLES)[draw.ConsumeIntInRange(0, len(SAMPLES) - 1)]
    content = SAMPLES[sample]
    packed = content.startswith(b"PK")
    if packed and draw.ConsumeIntInRange(0, 3):
        content = mutate_member(draw, content)
    else:
        content = mutate(draw, content)
    try:
        load(sample, content)
    except Exception as error:
        if not is_documented(error):
            raise


def seeds() -> list[bytes]:
    """Return inputs long enough to draw everything from."""
    return [_RNG.bytes(80) for _ in range(300)]


if __name__ == "__main__":
    for name, whole in SAMPLES.items():
        load(name, whole)
    run(test_one, "load", seeds())

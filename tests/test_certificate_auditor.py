"""The auditor by itself: numbers of any type and size are counted against the claim."""

import ast
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from certificate_helpers import claim_of, make_proof, why_false
from nodeproof.certificate import audit

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]

SOURCE = Path(audit.__file__)


def arrays_of(links, eta, w, wt, costs, z, **steps):
    """Return a problem, a labelling and steps as the arrays that the auditor reads."""
    A = sp.csr_array(links)
    A.sort_indices()
    costs = np.asarray(costs, dtype=np.float64)
    problem = {
        "costs": costs, "eta": np.asarray(eta, dtype=np.float64), "weights": A.data,
        "scales": np.array([w, wt], dtype=np.float64), "indptr": A.indptr, "indices": A.indices,
        "labels": np.asarray(z), "possible": np.ones(costs.shape, dtype=bool),
    }  # fmt: skip
    return problem | {f"step0_{name}": np.asarray(array) for name, array in steps.items()}


def confirmed(arrays, tolerance=0.0) -> tuple[dict, dict]:
    """Return all that the auditor finds as a claim that it confirms, and its arrays."""
    found = audit.examine(arrays)[2]
    arrays = arrays | {"possible": found.possible}
    claim = claim_of(found, tolerance)
    check = audit.audit(claim, arrays)
    assert check, check.reason
    return claim, arrays


# Rounding. ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_tangent_of_narrow_numbers_is_computed_with_as_a_wide_one(dtype, monkeypatch):
    monkeypatch.setattr(audit, "ENUMERATED", 0)
    every = np.ones((4, 2), dtype=bool)
    for x in np.linspace(1.0, 4.0, 300).astype(dtype):
        # Two nodes a class are the best, and the tangent there is exact.
        half = float(x) / 2.0
        dual = {"a": np.array([x, x], dtype=dtype), "y": np.empty((0, 2))}
        links = sp.csr_array((4, 4))
        z = np.array([0, 0, 0, 1])
        arrays = arrays_of(
            links, np.full(4, half), 0.0, 1.0, np.zeros((4, 2)), z, open=every, plain=True, **dual
        )
        claim, _ = confirmed(arrays)
        assert Fraction(claim["lower_bound"]) <= 4 * Fraction(half) ** 2


def test_many_raised_costs_are_summed_against_the_claim():
    # The first node may have either class; costs are raised to zero at all others.
    rng = np.random.default_rng(0)
    for _ in range(400):
        m = int(rng.integers(54, 1000))
        kappa = float(rng.uniform(1.0 / m, 1.0 / (m - 1)))
        costs, raised = np.full((m, 2), -kappa), np.ones((m, 2), dtype=bool)
        costs[0], raised[0, 1] = 0.0, False
        arrays = arrays_of(
            sp.csr_array((m, m)), np.zeros(m), 0.0, 0.0, costs, np.zeros(m, dtype=np.int64),
            open=np.ones((m, 2), dtype=bool), a=np.zeros(2), y=np.empty((0, 2)), raised=raised,
            kappa=kappa,
        )  # fmt: skip
        assert audit.examine(arrays)[2].possible[0].all()


def test_squares_too_small_for_floats_are_not_lost():
    # Apart, the nodes cost 1e-240; together twice that, of which each square is 1e-340.
    arrays = arrays_of(
        sp.csr_array((2, 2)), [1e-170, 1e-170], 0.0, 1e100, [[0.0, 5e-240], [0.0, 1e-240]], [0, 0]
    )
    try:
        found = audit.examine(arrays)[2]
    except audit.Refused:
        return
    assert not found.exact
    assert not why_false(claim_of(found), arrays | {"possible": found.possible})


@pytest.mark.parametrize("n", [3, 4, 20, 200])
@pytest.mark.parametrize("large", [1e80, 1e90, 1e100])
@pytest.mark.filterwarnings("ignore")
def test_a_factorisation_that_overflows_proves_nothing(n, large, monkeypatch):
    # Two nodes, linked by as much as numbers can say, are best together. Prices of zero lose all
    # of that; a factor with infinity times zero in it does not show it.
    monkeypatch.setattr(audit, "ENUMERATED", 1)
    links = np.zeros((n, n))
    links[0, -1] = links[-1, 0] = large
    z = (np.arange(n) == n - 1).astype(np.int64)
    arrays = arrays_of(
        links, np.zeros(n), large, 0.0, np.zeros((n, 2)), z, open=np.ones((n, 2), dtype=bool),
        nu=np.zeros(n), r=np.zeros((2, n)), sigma=np.zeros(2), plain=True,
    )  # fmt: skip
    try:
        bound = audit.examine(arrays)[2].lower_bound
    except audit.Refused:
        return
    assert bound == -np.inf or Fraction(bound) <= -2 * Fraction(large) ** 2


@pytest.mark.any_cpu
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_row_pointers_that_wrap_around_are_refused(dtype):
    # Differences of these are what they should be, but for overflow; read as they are, they
    # point before the arrays. In a process of its own, since that may end it.
    least = np.iinfo(dtype).min
    script = (
        "import importlib.util, sys, numpy as np\n"
        f"spec = importlib.util.spec_from_file_location('audit', {str(SOURCE)!r})\n"
        "audit = sys.modules['audit'] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(audit)\n"
        f"indptr = np.array([0, {least}, 0, 2], dtype=np.{dtype.__name__})\n"
        "arrays = dict(costs=np.zeros((3, 2)), eta=np.zeros(3), scales=np.ones(2),\n"
        "    indptr=indptr, indices=np.array([0, 1]), weights=np.ones(2))\n"
        "try:\n    audit.Problem.of(arrays)\nexcept audit.Refused:\n    print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "refused\n", done.stderr
    assert done.returncode == 0


# Independence. --------------------------------------------------------------------------


def test_the_auditor_imports_nothing_but_numpy_and_sparse_matrices():
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    named = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            named.add(node.module)
        elif isinstance(node, ast.Name):
            assert node.id not in {"__import__", "eval", "exec", "compile"}
    others = {name for name in named if name.split(".")[0] not in sys.stdlib_module_names}
    assert others == {"numpy", "scipy.sparse"}
    assert not named & {"importlib", "ctypes", "pickle"}


def test_the_auditor_can_be_read_at_once():
    assert len(SOURCE.read_text(encoding="utf-8").splitlines()) <= 500


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return a folder with the auditor, a certificate and its graph, and no package."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "audit.py").write_bytes(SOURCE.read_bytes())
    proof = make_proof("blocks")
    proof.save(folder / "certificate.npz")
    sp.save_npz(folder / "graph.npz", proof.instance.adjacency)
    return folder, proof


def run_alone(folder, *names):
    # -I and -S leave out all but what is named, here numpy and scipy.
    path = f"{Path(np.__file__).parents[1]}"
    script = f"import sys; sys.path.append({path!r}); sys.modules['nodeproof'] = None\n"
    script += f"sys.argv = ['audit.py', *{names!r}]\n"
    script += "import runpy; runpy.run_path('audit.py', run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], cwd=folder, capture_output=True, text=True
    )


@pytest.mark.any_cpu
def test_the_auditor_runs_without_the_package(alone):
    folder, proof = alone
    done = run_alone(folder, "certificate.npz", "graph.npz")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("confirmed: objective ")
    assert f"{proof.objective:.6g}"[:5] in done.stdout
    script = [sys.executable, "audit.py", "certificate.npz", "graph.npz"]
    done = subprocess.run(script, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def other_graphs(A):
    heavier, fewer = A.copy(), sp.lil_array(A)
    heavier.data[:] = 2.0
    u, v = (int(x[0]) for x in A.nonzero())
    fewer[u, v] = fewer[v, u] = 0.0
    return {"heavier": heavier, "fewer": sp.csr_array(fewer), "smaller": A[1:, 1:]}


@pytest.mark.any_cpu
@pytest.mark.parametrize("which", ["heavier", "fewer", "smaller"])
def test_the_auditor_alone_refuses_another_graph(alone, which):
    folder, proof = alone
    sp.save_npz(folder / "other.npz", other_graphs(proof.instance.adjacency)[which])
    done = run_alone(folder, "certificate.npz", "other.npz")
    assert done.returncode == 1
    assert done.stdout.startswith("refused: "), done.stderr
    assert "another graph" in done.stdout


def test_the_auditor_alone_refuses_what_is_not_proven(alone):
    folder, _ = alone
    with np.load(folder / "certificate.npz") as file:
        arrays = {name: file[name] for name in file.files}
    steps = [name for name in arrays if name.startswith("step0_")]
    np.savez(folder / "forged.npz", **{x: a for x, a in arrays.items() if x not in steps})
    done = run_alone(folder, "forged.npz", "graph.npz")
    assert done.returncode == 1
    assert done.stdout.startswith("refused: "), done.stderr
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.any_cpu
@pytest.mark.parametrize(
    "names",
    [
        (),
        ("graph.npz", "graph.npz"),
        ("audit.py", "graph.npz"),
        ("certificate.npz", "none.npz"),
        ("row.npy", "graph.npz"),
    ],
)
def test_the_auditor_alone_says_in_a_line_what_it_cannot_read(alone, names):
    folder, _ = alone
    np.save(folder / "row.npy", np.arange(3))
    done = run_alone(folder, *names)
    assert done.returncode == 2
    assert not done.stderr
    assert len(done.stdout.splitlines()) == 1


# Classes that links cannot make up for. ---------------------------------------------------


def small_state(costs, w=1.0, wt=0.0, z=(0, 0, 0)):
    A = sp.csr_array(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    p = audit.Problem(A, np.array([1.0, 1.0, 0.0]), w, wt, np.array(costs, dtype=float))
    return audit.State(p, np.array(z), np.empty(0, dtype=np.int64))


def test_classes_that_cost_more_than_links_gain_are_excluded_at_once():
    # A link gains 2w, and the other node with a link pays 2wt at most.
    possible = small_state([[0, 2], [0, 2.1], [0, 1e-90]]).possible
    assert possible.tolist() == [[True, True], [True, False], [True, False]]
    possible = small_state([[0, 4.5], [0, 7], [0, 0]], wt=1.0).possible
    assert possible.tolist() == [[True, True], [True, False], [True, True]]


def test_the_class_of_the_labelling_stays_possible():
    assert small_state([[0, 9], [9, 0], [0, 1]], z=(1, 0, 1)).possible.all()

"""Certificates from a finder of proofs that was damaged, judged by the auditor as it is.

    python finder_mutants.py FIRST STEP MODULE ...

damages one place of a module after another, beginning with the FIRST and leaving out all but every
STEP-th, certifies two of a few tiny problems each time, and prints as JSON how often the outcome
changed, how often the finder failed, how many false claims the auditor has refused, those that it
has confirmed, of which there must be none, and whether the module is in use at all. A step of zero
takes three places of each module. Kernels must not be compiled: NUMBA_DISABLE_JIT=1.
"""

import ast
import copy
import importlib.abc
import importlib.util
import json
import signal
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

LABELLING = "nodeproof.certificate.labelling"
#: what finds proofs; nodeproof.certificate.audit is not among them
FINDERS = [
    *(
        f"{LABELLING}.{name}"
        for name in (
            "certify", "dual", "exclusion", "families", "flows", "improve", "instance",
            "labellings", "potts", "potts_search", "proof", "search", "spectral_search",
        )
    ),
    "nodeproof.kernels.potts",
    "nodeproof.kernels.annealing",
]  # fmt: skip
_SECONDS = 2.0  # of computation: a mutant may loop without end

# Places to damage. ------------------------------------------------------------------------

_COMPARED = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}  # fmt: skip


def damages(tree: ast.Module):
    """Yield functions that damage one place of a tree each, in place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
            yield node, lambda n: n.ops.__setitem__(0, _COMPARED[type(n.ops[0])]())
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _COMPUTED:
            yield node, lambda n: setattr(n, "op", _COMPUTED[type(n.op)]())
        elif isinstance(node, ast.BoolOp):
            yield node, lambda n: setattr(n, "op", [ast.And, ast.Or][isinstance(n.op, ast.And)]())
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert):
            yield node, lambda n: setattr(n, "op", ast.UAdd())
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, lambda n: setattr(n, "operand", ast.UnaryOp(ast.Not(), n.operand))
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, lambda n: setattr(n, "value", not n.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield node, lambda n: setattr(n, "value", 2 * n.value + 1)
            if node.value:
                yield node, lambda n: setattr(n, "value", -n.value)
    for node in ast.walk(tree):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(body, list):
                for k, line in enumerate(body):
                    if isinstance(line, ast.Assign | ast.AugAssign) or (
                        isinstance(line, ast.Expr) and isinstance(line.value, ast.Call)
                    ):
                        yield body, lambda b, k=k: b.__setitem__(k, ast.Pass())


def mutants(source: str, first: int, step: int):
    """Yield the number of a damaged place and the tree with that damage."""
    tree = ast.parse(source)
    n_places = sum(1 for _ in damages(tree))
    for place in range(first, n_places, step):
        other = copy.deepcopy(tree)
        for k, (node, damage) in enumerate(damages(other)):
            if k == place:
                damage(node)
                break
        yield place, ast.fix_missing_locations(other)


def wreck(source: str) -> ast.Module:
    """Return the tree with no function that ends well."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = ast.parse("raise ArithmeticError").body
    return tree


class Replaced(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import one module from a tree, and all others as they are."""

    def __init__(self, name, tree):
        self.name, self.tree = name, tree

    def find_spec(self, name, path=None, target=None):
        if name == self.name:
            return importlib.util.spec_from_loader(name, self)
        return None

    def exec_module(self, module):
        exec(compile(self.tree, self.name, "exec"), module.__dict__)


# Outcomes. --------------------------------------------------------------------------------


def tiny_problems():
    """Return problems as links, null model, scales, costs and a labelling to begin with."""
    rng = np.random.default_rng(5)
    z = np.array([0, 0, 0, 1, 1, 1])
    upper = np.triu(rng.random((6, 6)) < np.where(np.equal.outer(z, z), 0.9, 0.3), 1)
    links = (upper + upper.T).astype(np.float64)
    ones, degrees = np.ones(6), links.sum(axis=1) / np.sqrt(links.sum())
    costs = np.where(np.eye(2, dtype=bool)[z], 0.0, rng.integers(0, 3, size=(6, 1)) * 1.0)
    costs[2] = [0.3, 0.0]
    path = np.eye(6, k=1) + np.eye(6, k=-1)
    near = costs + 1e-12 * rng.integers(-2, 3, size=(6, 2))
    return [
        (links, ones, 1.0, 0.4, costs, z),  # by name
        (links, degrees, 0.7, 0.5, np.zeros((6, 3)), z),  # up to names
        (links, ones, 0.5, 0.2, near, 1 - z),  # all but tied
        (links, ones, -0.6, -0.3, rng.random((6, 2)), z),  # links that repel
        (path, ones, 0.4, 0.0, rng.random((6, 3)), z),  # messages alone prove it
    ]


def outcomes(finder, compared: int, improve: bool, which=range(5)):
    """Return claim and arrays of the certificates of a finder; `improve`d labellings take long."""
    instance_of = finder(f"{LABELLING}.instance").Instance
    certify = finder(f"{LABELLING}.certify").certify_instance
    finder("nodeproof.certificate.audit").ENUMERATED = compared
    if not improve:
        finder(f"{LABELLING}.search").improve_labelling = lambda instance, z, **_: z
    found = []
    for A, eta, w, wt, costs, z in [tiny_problems()[k] for k in which]:
        # As if time was no matter: what it proves is to hang on no clock.
        proof = certify(
            instance_of(sp.csr_array(A), eta, w, wt, costs), z, time_budget=1e4, max_iter=8
        )
        found.append((proof.claim(), proof.to_arrays()))
    return found


def overstated(auditor, claim, arrays):
    """Return the claim that the labelling with one node moved is the only one, by these steps."""
    z = np.array(arrays["labels"])
    z[0] = (z[0] + 1) % arrays["costs"].shape[1]
    low, high = auditor.Problem.of(arrays).value(z)
    sure = np.eye(arrays["costs"].shape[1], dtype=bool)[z]
    claim = claim | {"objective": high, "lower_bound": low, "exact": True, "unique": True}
    return claim, arrays | {"labels": z, "possible": sure}


class Late(Exception):  # noqa: N818
    """A mutant takes too long."""


def fresh(name, tree):
    """Return a function that imports modules anew, one of them damaged."""
    stem = name.rsplit(".", 1)[0]
    for loaded in [x for x in sys.modules if x.startswith((LABELLING, "nodeproof.kernels", stem))]:
        if loaded != "nodeproof.certificate.audit":
            del sys.modules[loaded]
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, Replaced)]
    if tree is not None:
        sys.meta_path.insert(0, Replaced(name, tree))
    # `from nodeproof import kernels` asks the package, which keeps the old one until told so.
    importlib.import_module("nodeproof.kernels")
    return importlib.import_module


def load_auditor(path):
    """Return the auditor as a module of its own."""
    spec = importlib.util.spec_from_file_location("auditor", path)
    module = sys.modules["auditor"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def same(one, other) -> bool:
    if [claim for claim, _ in one] != [claim for claim, _ in other]:
        return False
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[x], b[x], equal_nan=True) for x in a)
        for (_, a), (_, b) in zip(one, other, strict=True)
    )


def late(*_):
    raise Late


@cache
def undamaged(compared: int, improve: bool):
    """Return what finders find that nobody has damaged."""
    return outcomes(fresh(FINDERS[0], None), compared, improve)


def damage(name: str, first: int, step: int, auditor) -> dict:
    """Return what becomes of the mutants of a module."""
    from certificate_helpers import enumerate_all, instance_of, why_false

    source = Path(importlib.util.find_spec(name).origin).read_text(encoding="utf-8")
    step = step or max(1, sum(1 for _ in damages(ast.parse(source))) // 3)
    improve = name.endswith(("labellings", "annealing"))
    whole = {n: undamaged(n, improve) for n in (1, 200_000)}
    truths = [enumerate_all(instance_of(arrays)) for _, arrays in whole[1]]
    own = [{x: np.asarray(arrays[x]) for x in _PROBLEM} for _, arrays in whole[1]]
    counts = {"mutants": 0, "changed": 0, "failed": 0, "refused": 0, "genuine": 0, "in_use": 0}
    confirmed = []
    try:  # or damage would go unnoticed
        outcomes(fresh(name, wreck(source)), 1, improve)
    except ArithmeticError:
        counts["in_use"] = 1
    for turn, (place, tree) in enumerate(mutants(source, first, step)):
        counts["mutants"] += 1
        compared, which = 1 if turn % 3 else 200_000, [turn % 5, (turn + 1) % 5]
        signal.setitimer(signal.ITIMER_PROF, _SECONDS)
        try:
            found = outcomes(fresh(name, tree), compared, improve, which)
        except (Exception, Late, RecursionError):
            counts["failed"] += 1
            continue
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
        counts["changed"] += not same(found, [whole[compared][k] for k in which])
        auditor.ENUMERATED = compared
        for k, (claim, given) in zip(which, found, strict=True):
            arrays, truth = given | own[k], truths[k]  # what is asked is not for the finder to say
            for more in (False, True):
                if more:
                    claim, arrays = overstated(auditor, claim, arrays)
                check = auditor.audit(claim, arrays)
                try:
                    false = why_false(claim, arrays, truth)
                except (IndexError, ValueError, TypeError, KeyError):
                    false = "it is none"
                counts["refused"] += bool(false) and not check
                counts["genuine"] += bool(check)
                if false and check:
                    confirmed.append(f"{name}, place {place}: {false}")
    return counts | {"confirmed": confirmed}


def main(first: int, step: int, *names: str) -> None:
    """Print what becomes of the mutants of some modules."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    signal.signal(signal.SIGPROF, late)
    auditor = load_auditor(importlib.util.find_spec("nodeproof.certificate.audit").origin)
    print(json.dumps({name: damage(name, first, step, auditor) for name in names}))


_PROBLEM = ("costs", "eta", "scales", "weights", "indptr", "indices")

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])

"""Updates of fits to several kinds of links, to links with a direction and with a sign."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import Directed, NodeClassifier
from nodeproof.auto.experts.propagation import Propagation
from nodeproof.errors import InputError
from nodeproof.fit_graph import read_graph
from nodeproof.inputs.link_kinds import LinkKinds, split_kinds
from nodeproof.saving.model import load_model, save_model
from nodeproof.storage.npz import open_npz, write_npz
from nodeproof.terms import Labels, NodeData

pytestmark = pytest.mark.numeric

N, NEW, K = 180, 9, 3
NAMES = ["two", "weighted", "signed", "directed", "mixed"]


def both_ways(found):
    upper = np.triu(found, 1)
    return (upper + upper.T).astype(float)


class World(NamedTuple):
    truth: np.ndarray
    y: np.ndarray
    kinds: dict


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.repeat(np.arange(K), N // K))
    same, ahead = truth[:, None] == truth, (truth[None] - truth[:, None]) % K == 1
    draw = rng.random((4, N, N))
    told, chance = both_ways(draw[0] < np.where(same, 0.3, 0.05)), both_ways(draw[1] < 0.1)
    apart = both_ways(draw[2] < np.where(same, 0.02, 0.25)) * (1 - told)
    arcs = (draw[3] < np.where(ahead, 0.3, np.where(same, 0.1, 0.02))) * (1.0 - np.eye(N))
    weights = both_ways(rng.integers(1, 5, (N, N)).astype(float)) + 0.25
    y = np.where(rng.random(N) < 0.3, truth, -1)
    kinds = {
        "two": {"told": told, "chance": chance},
        "weighted": {"told": told * weights, "chance": chance},
        "signed": told * weights - apart,
        "directed": arcs,
        "mixed": {"told": told, "leads": arcs},
    }
    return World(truth, y, kinds)


def part(links, rows, columns):
    if isinstance(links, dict):
        return {name: part(own, rows, columns) for name, own in links.items()}
    return sp.csr_array(links[rows, columns])


def as_graph(links):
    """Return links as a fit takes them."""
    if not isinstance(links, dict):
        return Directed(links) if (links != links.T).nnz else links
    return {name: as_graph(own) for name, own in links.items()}


def of_new(links, old, n):
    """Return the links of new nodes as an update takes them, and those with a direction among
    them, which it takes as links to add."""
    if isinstance(links, dict):
        found = {name: of_new(own, old, n) for name, own in links.items()}
        added = {name: more for name, (_, more) in found.items() if more is not None}
        return {name: own for name, (own, _) in found.items()}, added or None
    if (links != links.T).any():
        among = np.argwhere(links[old:n, old:n]) + old
        return {"out": part(links, slice(old, n), slice(old)),
                "in": part(links.T, slice(old, n), slice(old))}, among  # fmt: skip
    return part(links, slice(old, n), slice(n)), None


def fit(world, name, n, **options):
    options = {"terms": [Labels()], "weights": "calibrated", "n_classes": K} | options
    graph = as_graph(part(world.kinds[name], slice(n), slice(n)))
    return NodeClassifier(random_state=0, **options).fit(None, world.y[:n], graph=graph)


def check_same(graph, links):
    """Check that a graph is what a fit would read of these links."""
    given = as_graph(part(links, slice(None), slice(None)))
    parts = split_kinds(given, None)
    anew = read_graph(LinkKinds(parts) if len(parts) > 1 else given, "auto", None)
    assert graph.sorts == anew.sorts
    np.testing.assert_allclose(graph.adjacency.toarray(), anew.adjacency.toarray(), rtol=1e-6)
    for own, other in zip(graph.kinds, anew.kinds, strict=True):
        assert own.name == other.name
        assert own.weighted == other.weighted
        assert own.unit == pytest.approx(other.unit)
        for one, two in zip(own.sides, other.sides, strict=True):
            np.testing.assert_array_equal(one.indptr, two.indptr)
            np.testing.assert_array_equal(one.indices, two.indices)
            np.testing.assert_array_equal(one.weights, two.weights)
            np.testing.assert_allclose(one.eta, two.eta)
            np.testing.assert_allclose(one.far, two.far)


@pytest.mark.filterwarnings("ignore:the graph is directed")
@pytest.mark.parametrize("name", NAMES)
def test_new_nodes_of_all_kinds_agree_with_a_full_fit(world, name):
    old = N - NEW
    clf = fit(world, name, old)
    links, among = of_new(world.kinds[name], old, N)
    clf.update(None, world.y[old:], graph=links, add=among)
    again = fit(world, name, N)
    check_same(clf.fitted_.data.nodes.graph, world.kinds[name])
    if name != "directed":  # without labels held out, directions do not count
        assert (clf.labels_ == again.labels_).mean() >= 0.97
        assert clf.objective_ == pytest.approx(again.objective_, rel=1e-3)
    assert clf.choices_["update"]["value"]["nodes"] == NEW


@pytest.mark.filterwarnings("ignore:the graph is directed")
@pytest.mark.parametrize("name", NAMES)
def test_links_of_a_kind_are_added_and_removed(world, name):
    before = fit(world, name, N)
    links = world.kinds[name]
    kind = "told" if isinstance(links, dict) else None
    own = links[kind] if kind else links
    some = np.argwhere(own)[:6]
    some = some[some[:, 0] < some[:, 1]] if name != "directed" else some
    listed = [[int(u), int(v), float(own[u, v])] for u, v in some]
    clf = fit(world, name, N)
    clf.update(remove=some if kind is None else {kind: some}, y={0: 1})
    assert clf.choices_["update"]["value"]["links"] == len(some)
    clf.update(add=listed if kind is None else {kind: listed})
    check_same(clf.fitted_.data.nodes.graph, links)
    assert (clf.fitted_.given[1:] == before.fitted_.given[1:]).all()


def test_a_link_that_gets_a_weight_of_the_other_sign_changes_its_kind(world):
    clf = fit(world, "signed", N)
    links = world.kinds["signed"].copy()
    (u, v), (a, b) = np.argwhere(links > 0)[0], np.argwhere(links < 0)[0]
    links[u, v] = links[v, u] = -2.0
    links[a, b] = links[b, a] = 0.0
    clf.update(add=[(u, v, -2.0)], remove=[(a, b)])
    check_same(clf.fitted_.data.nodes.graph, links)


def test_a_table_with_a_column_of_kinds_says_which_links_are_added(world):
    clf = fit(world, "two", N)
    free = {
        name: next(iter(np.argwhere(own + np.eye(N) == 0).tolist()))
        for name, own in world.kinds["two"].items()
    }
    ends = np.array(list(free.values()))
    clf.update(add={"source": ends[:, 0], "target": ends[:, 1], "type": np.array(list(free))})
    for kind in clf.fitted_.data.nodes.graph.kinds:
        assert kind.adjacency[*free[kind.name]] == 1.0


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("two", {"add": [(0, 1)]}, "give a dict with the links of each kind"),
        ("two", {"add": {"other": [(0, 1)]}}, "there is no 'other' among"),
        ("two", {"add": {"told": [(0, 1, -1.0)]}}, r"a weight in add\['told'\] is -1"),
        ("two", {"remove": {"told": [(0, 0)]}}, "to itself"),
        ("two", {"graph": sp.csr_array((1, N))}, "give a dict with the links of each kind"),
        ("directed", {"graph": [[0, N + 1], [1, 3]]}, "leave out those among new nodes"),
    ],
)
@pytest.mark.filterwarnings("ignore:the graph is directed")
def test_what_is_about_no_kind_is_refused(world, name, change, said):
    clf = fit(world, name, N)
    before = clf.proba_.copy()
    with pytest.raises(InputError, match=said):
        clf.update(**change)
    assert (clf.proba_ == before).all()


@pytest.mark.filterwarnings("ignore:the graph is directed")
def test_links_are_removed_in_their_direction_alone(world):
    arcs = world.kinds["directed"]
    u, v = np.argwhere((arcs > 0) & (arcs.T == 0))[0]
    clf = fit(world, "directed", N)
    with pytest.raises(InputError, match="no link from the first to the second"):
        clf.update(remove=[(v, u)])
    clf.update(remove=[(u, v)], add=[(v, u)])
    turned = arcs.copy()
    turned[u, v], turned[v, u] = 0.0, 1.0
    check_same(clf.fitted_.data.nodes.graph, turned)


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_links_that_are_not_there_are_called_by_name():
    table = {"source": ["ann", "bob", "eve"], "target": ["bob", "eve", "dan"]}
    clf = NodeClassifier(terms=[], weights="calibrated", n_classes=2, random_state=0)
    clf.fit(graph=table)
    with pytest.raises(InputError, match="the nodes 'ann' and 'dan', but there is no link"):
        clf.update(remove=[("dan", "ann")])


def test_experts_of_a_kind_learn_again_on_their_kind(world):
    old = N - NEW
    clf = fit(world, "two", old, terms="auto", weights="auto", experts=["propagation"])
    links, _ = of_new(world.kinds["two"], old, N)
    clf.update(None, world.y[old:], graph=links)
    verdict = clf.fitted_.terms[0].verdict
    place = verdict.names.index("propagation (told)")
    own = verdict.learnt[place].own
    nodes = clf.fitted_.data.nodes
    told = next(kind for kind in nodes.graph.kinds if kind.name == "told")
    expert = Propagation().bind(NodeData(K, None, world.y, told))
    again = expert.learn(world.y, own.restart)
    np.testing.assert_array_equal(own.mass, again.mass)
    assert "propagation (told)" in {row["expert"] for row in clf.choices_["experts"]["value"]}


@pytest.mark.filterwarnings("ignore:the graph is directed")
def test_experts_of_a_direction_learn_again(world):
    old = N - NEW
    clf = fit(world, "mixed", old, terms="auto", weights="auto", experts=["links"])
    links, among = of_new(world.kinds["mixed"], old, N)
    clf.update(None, world.y[old:], graph=links, add=among)
    unseen = world.y < 0
    assert (clf.labels_ == world.truth)[unseen].mean() > 0.8
    arcs = world.kinds["mixed"]["leads"]
    ways = {"out": part(arcs, slice(20), slice(None)), "in": part(arcs.T, slice(20), slice(None))}
    assert (clf.predict(graph={"leads": ways}) == world.truth[:20]).mean() > 0.6


@pytest.mark.filterwarnings("ignore:the graph is directed")
@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_model_of_several_kinds_is_updated_to_the_same_bits(world, name, tmp_path):
    old = N - NEW
    clf = fit(world, name, old)
    save_model(clf.fitted_, tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    assert (loaded.query(3) == clf.query(3)).all()
    links, among = of_new(world.kinds[name], old, N)
    for model in (clf, loaded):
        model.update(None, world.y[old:], graph=links, add=among)
    assert (loaded.proba_ == clf.proba_).all()
    assert loaded.objective_ == clf.objective_
    save_model(loaded.fitted_, tmp_path / "model.npz")
    graph = load_model(tmp_path / "model.npz").data.nodes.graph
    check_same(graph, world.kinds[name])


def change_meta(arrays, **changes):
    meta = json.loads(arrays["meta"].tobytes())
    meta["data"].update(changes)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)


def one_way(arrays):
    indices = arrays["data_kind_0_indices"].copy()
    indices[0] = (indices[0] + 1) % N
    arrays["data_kind_0_indices"] = indices


@pytest.mark.parametrize(
    "broken",
    [
        one_way,
        lambda arrays: arrays.pop("data_kind_1_indptr"),
        lambda arrays: arrays.update(data_kind_2_indptr=arrays["data_kind_1_indptr"]),
        lambda arrays: change_meta(arrays, links="own"),
        lambda arrays: change_meta(arrays, kinds=[]),
        lambda arrays: change_meta(arrays, view="above"),
        lambda arrays: change_meta(
            arrays, kinds=[{"name": "told", "directed": False, "null_model": "uniform"}] * 2
        ),
    ],
)
def test_kinds_of_a_file_that_do_not_fit_together_are_refused(world, tmp_path, broken):
    path = tmp_path / "model.npz"
    save_model(fit(world, "two", N).fitted_, path)
    with open_npz(path) as archive:
        arrays = {name: archive[name] for name in archive}
    broken(arrays)
    with path.open("wb") as file:
        write_npz(file, arrays)
    with pytest.raises(InputError, match=r"is not a valid|damaged|cannot be read"):
        load_model(path)

"""Pictures: what is on them, that they are drawn where asked, and that they change nothing."""

import io
import sys
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from experiment_helpers import make_results  # noqa: E402
from nodeproof import NodeClassifier, plot  # noqa: E402
from nodeproof.datasets import make_planted  # noqa: E402
from nodeproof.errors import InputError, MissingExtraError  # noqa: E402
from nodeproof.interop import from_tables  # noqa: E402
from nodeproof.metrics import expected_calibration_error, reliability_curve  # noqa: E402
from nodeproof.paper import experiments  # noqa: E402
from nodeproof.paper.experiments import Axis, Curve, Panel, Series  # noqa: E402
from nodeproof.terms import Gaussian  # noqa: E402

NAMES = np.array(["a $tall$ name that goes on and on", "b", "<c>"])
CURVES = {"ours": ([1, 2, 3], [[0.8, 0.84], [0.9, 0.9], [0.95, 0.97]])}


@pytest.fixture(scope="module")
def data():
    return make_planted(cluster_size=60, p=0.3, omega=0.3, label_accuracy=0.8, random_state=0)


@pytest.fixture(scope="module")
def clf(data):
    y = np.where(data.y >= 0, NAMES[data.y], "")
    return NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)


@pytest.fixture
def ax():
    return Figure().subplots()


def texts(ax):
    return [text.get_text() for text in ax.texts]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def ways(clf):
    return {
        "node_map": lambda ax: plot.node_map(clf, ax=ax),
        "block_matrix": lambda ax: plot.block_matrix(clf, ax=ax),
        "relative": lambda ax: plot.block_matrix(clf, relative=True, ax=ax),
        "reliability": lambda ax: plot.reliability(clf, ax=ax),
        "sources": lambda ax: plot.sources(clf, ax=ax),
        "accuracy_curves": lambda ax: experiments.accuracy_curves(CURVES, ax=ax),
        "phase_diagram": lambda ax: experiments.phase_diagram(np.eye(2), [1, 2], [3, 4], ax=ax),
    }


def test_every_picture_is_drawn_on_the_axes_given_and_returns_them(clf):
    for name, draw in ways(clf).items():
        ax = Figure().subplots()
        before = dict(mpl.rcParams), plt.get_fignums()
        assert draw(ax) is ax, name
        assert ax.has_data(), name
        assert (dict(mpl.rcParams), plt.get_fignums()) == before, name
        ax.figure.savefig(io.BytesIO(), format="png")


def test_new_axes_are_made_where_none_are_given(clf):
    for name, draw in ways(clf).items():
        ax = draw(None)
        assert plt.fignum_exists(ax.figure.number), name
        plt.close(ax.figure)


def test_without_matplotlib_one_line_names_the_command(clf, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in ways(clf).values():
        with pytest.raises(MissingExtraError, match=r"pip install 'nodeproof\[plot\]'"):
            draw(None)


def test_the_map_has_every_node_every_name_and_rings_the_suspects(clf, ax):
    plot.node_map(clf, ax=ax)
    nodes, rings = ax.collections
    assert len(nodes.get_offsets()) == 180
    assert len(rings.get_offsets()) == len(clf.suspects_) > 0
    assert texts(ax) == ["<c>", r"a \$tall\$ name tha…", "b"]
    few = plot.node_map(clf, nodes=[0, 5, 7], suspects=False, ax=Figure().subplots())
    assert len(few.collections) == 1
    assert "3 of 180" in few.get_title()


def test_the_map_takes_positions_in_any_order_a_mask_or_no_node(clf):
    def offsets(nodes):
        ax = plot.node_map(clf, nodes=nodes, suspects=False, ax=Figure().subplots())
        return ax.collections[0].get_offsets().tolist(), ax.get_title()

    mask = np.isin(np.arange(180), [3, 70, 150])
    assert offsets(mask) == offsets([3, 70, 150]) == offsets(np.array([150, 3, 70, 3]))
    assert offsets([]) == ([], "0 of 180 nodes by their class probabilities")
    ax = plot.node_map(clf, nodes=[], ax=Figure().subplots())
    top = max(text.get_position()[1] for text in ax.texts)
    assert 1.0 < top < ax.get_ylim()[1]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [([0, 180], "node 180, but there are 180"), ([-1], "node -1"), ([0.5], "integers"),
     (["a"], "integers"), ([[0, 1]], "integers"), (np.ones(7, bool), "mask")],
)  # fmt: skip
def test_the_map_refuses_nodes_that_there_are_not(clf, ax, nodes, words):
    with pytest.raises(InputError, match=words):
        plot.node_map(clf, nodes=nodes, ax=ax)


@pytest.mark.parametrize("K", [1, 2, 14, 45])
def test_maps_and_matrices_of_few_and_many_classes(K):
    rng = np.random.default_rng(0)
    graph = np.triu(rng.random((90, 90)) < 0.2, 1)
    clf = NodeClassifier(n_classes=K, max_iter=5, n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is nothing to be found
        clf.fit(graph=(graph | graph.T).astype(float))
    drawn = plot.node_map(clf, ax=Figure().subplots())
    assert len(drawn.texts) == (K if K <= 40 else 0)
    plot.block_matrix(clf, ax=Figure().subplots())
    if K == 1:
        assert texts(plot.sources(clf, ax=Figure().subplots())) == ["one class: nothing to decide"]


def test_the_matrix_has_the_density_of_links_between_classes(clf, data, ax):
    plot.block_matrix(clf, ax=ax)
    shown = ax.images[0].get_array()
    inside = clf.labels_ == clf.classes_[0]
    among = data.graph[inside][:, inside].sum() / (inside.sum() * (inside.sum() - 1))
    other = clf.labels_ == clf.classes_[1]
    across = data.graph[inside][:, other].sum() / (inside.sum() * other.sum())
    np.testing.assert_allclose(shown[0, :2], [among, across])
    np.testing.assert_allclose(shown, shown.T)
    assert len(ax.texts) == 9
    same = plot.block_matrix(clf, graph=data.graph, ax=Figure().subplots())
    np.testing.assert_allclose(same.images[0].get_array(), shown)
    ratio = plot.block_matrix(clf, relative=True, ax=Figure().subplots()).images[0].get_array()
    assert ratio[0, 0] > 1 > ratio[0, 1]


def test_a_classifier_without_links_has_no_matrix(data, ax):
    clf = NodeClassifier(random_state=0).fit(data.X, data.y)
    with pytest.raises(InputError, match="needs a graph"):
        plot.block_matrix(clf, ax=ax)
    assert plot.block_matrix(clf, graph=data.graph, ax=ax) is ax


@pytest.fixture(scope="module")
def named():
    """Return a graph with names, a fit to it and what its matrix shows."""
    parts = make_planted(2, 30, p=0.4, q=0.05, random_state=0)
    graph = nx.from_scipy_sparse_array(parts.graph, edge_attribute=None)
    graph = nx.relabel_nodes(graph, {v: f"n{(7 * v) % 60:02}" for v in graph})
    clf = NodeClassifier(random_state=0).fit(parts.X, parts.y, graph=graph)
    return graph, clf, shown_matrix(clf)


def shown_matrix(clf, graph=None):
    ax = plot.block_matrix(clf, graph=graph, ax=Figure().subplots())
    return np.asarray(ax.images[0].get_array())


def test_a_graph_of_the_same_nodes_in_another_order_has_the_same_matrix(named):
    graph, clf, expected = named
    np.testing.assert_allclose(shown_matrix(clf, graph), expected)
    turned = nx.Graph()
    turned.add_nodes_from(sorted(graph))
    turned.add_edges_from(graph.edges)
    table = nx.to_pandas_adjacency(turned)
    for other in (turned, table):
        np.testing.assert_allclose(shown_matrix(clf, other), expected)
    np.testing.assert_allclose(shown_matrix(clf, table.loc[list(graph), list(graph)]), expected)
    # Without names it is the order that counts.
    np.testing.assert_allclose(shown_matrix(clf, nx.to_numpy_array(graph)), expected)


def test_a_graph_of_positions_in_another_order_has_no_matrix(named):
    clf = named[1]
    unnamed = NodeClassifier(random_state=0).fit(y=clf.labels_, graph=nx.to_numpy_array(named[0]))
    graph = nx.convert_node_labels_to_integers(named[0])
    np.testing.assert_allclose(shown_matrix(unnamed, graph), shown_matrix(unnamed))
    turned = nx.Graph()
    turned.add_nodes_from(reversed(range(60)))
    turned.add_edges_from(graph.edges)
    with pytest.raises(InputError, match="row 0 is 0 in the fit and 59 in graph"):
        shown_matrix(unnamed, turned)


def test_a_table_of_links_between_names_has_a_matrix(named):
    graph, clf, expected = named
    source, target = zip(*graph.edges, strict=True)
    table = {"source": list(target)[::-1], "target": list(source)[::-1]}
    np.testing.assert_allclose(shown_matrix(clf, table), expected)
    np.testing.assert_allclose(shown_matrix(clf, pd.DataFrame(table)), expected)
    place = {name: v for v, name in enumerate(graph)}
    places = {side: [place[name] for name in names] for side, names in table.items()}
    np.testing.assert_allclose(shown_matrix(clf, places), expected)
    with pytest.raises(InputError, match=r"'who', which is not one of the 60 nodes"):
        shown_matrix(clf, {"source": ["n00"], "target": ["who"]})
    unnamed = NodeClassifier(random_state=0).fit(y=clf.labels_, graph=nx.to_numpy_array(graph))
    with pytest.raises(InputError, match="source"):
        shown_matrix(unnamed, table)


def test_links_between_numbers_that_are_names_must_say_so(named):
    graph = nx.relabel_nodes(named[0], lambda name: 100 + int(name[1:]))
    clf = NodeClassifier(random_state=0).fit(y=named[1].labels_, graph=graph)
    source, target = zip(*graph.edges, strict=True)
    links = {"source": list(source), "target": list(target)}
    with pytest.raises(InputError, match="ambiguous"):
        shown_matrix(clf, links)
    by_name = from_tables({"node": clf.node_ids_}, links)["graph"]
    np.testing.assert_allclose(shown_matrix(clf, by_name), shown_matrix(clf))


def test_a_model_that_is_not_fitted_has_no_picture(ax):
    for draw in (plot.node_map, plot.block_matrix, plot.sources, plot.reliability):
        with pytest.raises(Exception, match="not fitted"):
            draw(NodeClassifier(), ax=ax)


def test_reliability_shows_shares_counts_and_the_error_in_words(clf, data, ax):
    column = np.searchsorted(clf.classes_, NAMES)[data.y_true]
    plot.reliability((column, clf.proba_), n_bins=5, ax=ax)
    curve = reliability_curve(column, clf.proba_, 5)
    line = next(c for c in ax.containers if hasattr(c, "has_yerr") and c.has_yerr)
    np.testing.assert_allclose(line[0].get_xydata(), np.c_[curve.confidence, curve.right])
    assert texts(ax) == [f"{count:,}" for count in curve.counts]
    assert f"{curve.error:.3f}" in ax.get_title()
    assert "95 %" in " ".join(legend(ax))


def test_reliability_of_a_classifier_is_judged_by_its_labels(clf, data, ax):
    plot.reliability(clf, ax=ax)
    assert sum(int(text.replace(",", "")) for text in texts(ax)) == int((data.y >= 0).sum())
    found = clf.fitted_.findings
    assert found.noise > 0.1
    curve = reliability_curve(found.judged_labels, found.judged_proba, noise=found.noise)
    assert f"{curve.error:.3f}" in ax.get_title()
    bare = NodeClassifier(n_classes=3, random_state=0).fit(data.X, graph=data.graph)
    with pytest.raises(InputError, match=r"no labels .* \(y_true, proba\)"):
        plot.reliability(bare, ax=ax)


@pytest.mark.filterwarnings("ignore:.* labels name the class")
def test_labels_that_cannot_judge_are_not_said_to_be_missing(data, ax):
    def refusal(y=data.y, **settings):
        fitted = NodeClassifier(random_state=0, **settings).fit(data.X, y, graph=data.graph)
        with pytest.raises(InputError, match=r"give \(y_true, proba\)") as caught:
            plot.reliability(fitted, ax=ax)
        return str(caught.value)

    assert "temperature=0" in refusal(temperature=0.0)
    assert "only one class" in refusal(np.zeros(180, int))
    assert "no term that uses its labels" in refusal(terms=[Gaussian()])


@pytest.mark.parametrize("sure", [1.0, 0.97, 0.3])
def test_reliability_shows_half_of_the_scale_or_more_and_nothing_beyond_certainty(ax, sure):
    rest = (1 - sure) / 4
    plot.reliability((np.zeros(2, int), np.tile([sure, *[rest] * 4], (2, 1))), ax=ax)
    left, right = ax.get_xlim()
    assert left <= min(0.5, sure)
    assert right == 1.0
    assert "too few" in ax.get_title()


def test_the_legend_of_reliability_covers_nothing(clf, ax):
    plot.reliability(clf, ax=ax)
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().y1 < ax.get_window_extent().y0


def test_reliability_refuses_names_for_column_numbers(clf, data, ax):
    with pytest.raises(InputError, match="column numbers of proba, 0 to 2, but entry 0 is"):
        plot.reliability((NAMES[data.y_true], clf.proba_), ax=ax)


def test_shares_of_the_sources_are_bars(clf, ax):
    plot.sources(clf, ax=ax)
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, [100 * share for share in clf.sources_.values()])
    assert [label.get_text() for label in ax.get_yticklabels()] == list(clf.sources_)


def test_curves_show_means_bands_and_the_bound(ax):
    experiments.accuracy_curves(
        CURVES, bound=([1, 2, 3], [0.9, 0.95, 0.99]), xlabel="degree", ax=ax
    )
    ours, bound = ax.lines
    np.testing.assert_allclose(ours.get_ydata(), [0.82, 0.9, 0.96])
    np.testing.assert_allclose(bound.get_ydata(), [0.9, 0.95, 0.99])
    assert legend(ax) == ["ours", "best possible (genie)"]
    band = ax.collections[0].get_paths()[0].vertices
    # Two standard errors of two seeds 0.04 apart: ± 0.04.
    assert band[:, 1].max() == pytest.approx(0.98)
    assert band[band[:, 0] == 1][:, 1].min() == pytest.approx(0.78)
    assert ax.get_xlabel() == "degree"


def test_curves_take_series_and_single_seeds(ax):
    series = Series(np.array([0.0, 1.0]), [np.array([0.5]), np.array([0.6, 0.8])])
    experiments.accuracy_curves({"a": series, "b": ([0, 1], [0.4, 0.5])}, ax=ax)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.5, 0.7])
    for wrong in (3, ([1, 2], [0.5]), "ab?"):
        with pytest.raises(InputError, match="'a'"):
            experiments.accuracy_curves({"a": wrong}, ax=ax)


def test_curves_of_experiments_have_their_own_names_axis_and_bound(ax):
    results = make_results(["p", "omega"])
    with pytest.raises(InputError, match="p, omega"):
        experiments.accuracy_curves(results, ax=ax)
    experiments.accuracy_curves(results, "p", methods=["calibrated"], ax=ax)
    assert legend(ax)[-1] == "best possible (genie)"
    assert "Graph + Feature + Label" in legend(ax)
    assert ax.get_xlabel() == results.panels["p"].x.label
    curve = next(c for c in results.panels["p"].curves if (c.method, c.sources) == ("genie", "GF"))
    bound = next(line for line in ax.lines if line.get_label() == "best possible (genie)")
    np.testing.assert_allclose(bound.get_ydata(), results.series("p", curve).mean)
    with pytest.raises(InputError, match="no method 'magic'"):
        experiments.accuracy_curves(results, "p", methods=["magic"], ax=ax)
    everything = experiments.accuracy_curves(results, "p", ax=Figure().subplots())
    assert len(legend(everything)) == len(set(legend(everything))) > len(legend(ax))


def test_a_map_of_an_experiment_is_drawn_in_its_own_units(ax):
    panel = Panel(
        "heat", "heat", "A map", Axis("noise", (0.1, 1.0), (0.1, 1.0), scale="log"),
        lambda x, y: {"omega": x, "p": y}, (Curve("genie", "GF"), Curve("calibrated", "GF")),
        y=Axis("p", (0.1, 0.2, 0.3), (0.1, 0.2)), kind="map",
    )  # fmt: skip
    results = make_results([panel], lambda _p, x, method, _s, _k: x / 2 if method != "genie" else 1)
    experiments.phase_diagram(results, method="calibrated", boundary=lambda x: 0.2 * x, ax=ax)
    field = ax.collections[0].get_array()
    np.testing.assert_allclose(field, np.tile([0.05, 0.5], (3, 1)))
    assert ax.get_xscale() == "log"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("noise", "p")
    assert ax.get_ylim() == pytest.approx((0.05, 0.35))
    at_one = np.interp(1.0, *ax.lines[0].get_data())
    assert at_one == pytest.approx(0.2)
    with pytest.raises(InputError, match="calibrated/GF"):
        experiments.phase_diagram(results, method="spectral", ax=ax)


def test_a_phase_diagram_leaves_out_what_was_not_measured(ax):
    experiments.phase_diagram([[np.nan, 1.0], [0.2, 0.5]], [0, 1], [0, 1], level=0.6, ax=ax,
                       boundary=([0, 5], [0, 9]), label="recovered")  # fmt: skip
    assert ax.collections[0].get_array().mask.tolist() == [[True, False], [False, False]]
    assert ax.get_xlim() == (-0.5, 1.5)
    one = experiments.phase_diagram([[0.5]], [2.0], [3.0], ax=Figure().subplots())
    assert one.get_xlim() == (1.5, 2.5)
    for values, x in (([[1, 2, 3]], [1, 2]), ([[1, 2]], [2, 1]), ([[1, 2]], None)):
        with pytest.raises(InputError):
            experiments.phase_diagram(values, x, [1], ax=ax)


def test_reliability_curves_count_and_average_by_confidence():
    proba = np.array([[0.95, 0.05]] * 4 + [[0.35, 0.65]] * 2)
    curve = reliability_curve([0, 0, 0, 1, 1, 0], proba, 10)
    np.testing.assert_allclose(curve.confidence, [0.65, 0.95])
    np.testing.assert_allclose(curve.right, [0.5, 0.75])
    assert curve.counts.tolist() == [2, 4]
    assert (curve.low < curve.right).all()
    assert (curve.high > curve.right).all()
    assert curve.error == pytest.approx((2 * 0.15 + 4 * 0.2) / 6)
    assert expected_calibration_error([0, 0, 0, 1, 1, 0], proba, 10) == pytest.approx(curve.error)


def test_wrong_labels_are_undone_in_reliability():
    # Nodes are right with .9; labels are wrong with .2, of two classes: they agree with .74.
    truth = np.repeat([0, 1], [740, 260])
    curve = reliability_curve(truth, np.tile([0.9, 0.1], (1000, 1)), noise=0.2)
    np.testing.assert_allclose(curve.right, [0.9])
    assert "well calibrated" in curve.explain()


@pytest.mark.parametrize(
    ("share", "n", "words"),
    [(0.8, 1000, "well calibrated"), (0.6, 1000, "overconfident"), (0.95, 1000, "underconfident"),
     (0.7, 20, "chance"), (0.8, 19, "19 nodes: too few to judge"), (1.0, 1, "1 node: too few")],
)  # fmt: skip
def test_calibration_in_words(share, n, words):
    truth = np.repeat([0, 1], [round(share * n), n - round(share * n)])
    assert words in reliability_curve(truth, np.tile([0.8, 0.2], (n, 1))).explain()


def test_reliability_needs_nodes_bins_and_labels_that_tell():
    for given in (([], np.zeros((0, 2))), ([0], [[1.0, 0.0]], 0), ([0], [0.5])):
        with pytest.raises(InputError):
            reliability_curve(*given)
    with pytest.raises(InputError, match="tell nothing"):
        reliability_curve([0], [[0.5, 0.5]], noise=0.5)

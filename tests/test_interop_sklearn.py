"""NodeClassifier in scikit-learn's pipelines; `check_estimator` is in test_estimator.py."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from interop_helpers import assert_same, planted
from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.terms import Covariance, Labels


def classifier(**settings) -> NodeClassifier:
    return NodeClassifier(terms=[Covariance(), Labels()], n_init=1, random_state=0, **settings)


def pipeline() -> Pipeline:
    return make_pipeline(StandardScaler(), classifier())


@pytest.fixture(scope="module")
def expected() -> NodeClassifier:
    X = StandardScaler().fit_transform(planted().X)
    return classifier().fit(X, planted().y, graph=planted().graph)


def test_a_pipeline_hands_the_graph_on(expected):
    pipe = pipeline().fit(planted().X, planted().y, nodeclassifier__graph=planted().graph)
    np.testing.assert_array_equal(pipe[-1].proba_, expected.proba_)
    assert (pipe[-1].labels_ == planted().y_true).mean() > 0.95
    np.testing.assert_array_equal(pipe.classes_, expected.classes_)


def test_a_pipeline_judges_new_nodes_by_features_and_links(expected):
    pipe = pipeline().fit(planted().X, planted().y, nodeclassifier__graph=planted().graph)
    X_new, links = planted().X[:9] + 0.01, planted().graph[:9]
    scaled = pipe[0].transform(X_new)
    found = pipe.predict_proba(X_new, graph=links)
    np.testing.assert_array_equal(found, expected.predict_proba(scaled, graph=links))
    np.testing.assert_array_equal(pipe.predict(X_new, graph=links), planted().y_true[:9])


def test_metadata_can_be_routed(expected):
    with sklearn.config_context(enable_metadata_routing=True):
        last = classifier().set_fit_request(graph=True).set_predict_request(graph=True)
        pipe = make_pipeline(StandardScaler(), last)
        pipe.fit(planted().X, planted().y, graph=planted().graph)
        found = pipe.predict(planted().X[:9], graph=planted().graph[:9])
    np.testing.assert_array_equal(pipe[-1].proba_, expected.proba_)
    np.testing.assert_array_equal(found, planted().y_true[:9])


def test_names_of_features_come_through_a_pipeline(expected):
    table = pd.DataFrame(planted().X, columns=list("abcdef"))
    pipe = pipeline().set_output(transform="pandas")
    pipe.fit(table, planted().y, nodeclassifier__graph=planted().graph)
    assert pipe[-1].feature_names_in_.tolist() == list("abcdef")
    np.testing.assert_array_equal(pipe[-1].proba_, expected.proba_)
    with pytest.raises(ValueError, match="feature names"):
        pipe[-1].predict(table.rename(columns={"a": "z"})[:3])


def test_names_of_nodes_come_through_a_pipeline_too():
    table = pd.DataFrame(planted().X, columns=list("abcdef"), index=[f"n{v}" for v in range(120)])
    pipe = pipeline().set_output(transform="pandas")
    pipe.fit(table, planted().y, nodeclassifier__graph=planted().graph)
    assert pipe[-1].node_ids_.tolist() == table.index.tolist()


def test_words_are_encoded_on_the_way():
    table = pd.DataFrame(planted().X, columns=list("abcdef"))
    table["colour"] = np.where(planted().y_true == 0, "red", "blue")
    with pytest.raises(InputError, match="not numbers: 'colour'"):
        classifier().fit(table, planted().y)
    steps = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    pipe = make_pipeline(steps, classifier())
    pipe.fit(table, planted().y, nodeclassifier__graph=planted().graph)
    assert pipe[-1].n_features_in_ == 8


def test_settings_are_reached_and_clones_are_equal():
    pipe = pipeline().set_params(nodeclassifier__n_init=2, nodeclassifier__n_classes=3)
    copy = clone(pipe)
    assert copy[-1] is not pipe[-1]
    assert copy[-1].n_init == 2
    settings = copy[-1].get_params(deep=False)
    del settings["terms"]
    assert settings.items() <= pipe[-1].get_params(deep=False).items()
    with pytest.raises(ValueError, match="Invalid parameter 'magic'"):
        pipe.set_params(nodeclassifier__magic=1)


def test_a_clone_is_not_fitted_and_fits_the_same():
    clf = NodeClassifier(n_init=1, weights="calibrated", random_state=0)
    clf.fit(planted().X, planted().y, graph=planted().graph)
    copy = clone(clf)
    assert not hasattr(copy, "labels_")
    assert_same(copy.fit(planted().X, planted().y, graph=planted().graph))


def test_a_fit_forgets_the_names_of_the_one_before():
    named = pd.DataFrame(planted().X, index=[f"n{v}" for v in range(120)])
    clf = classifier().fit(named, planted().y)
    assert clf.node_ids_[3] == "n3"
    assert not hasattr(clf.fit(planted().X, planted().y), "node_ids_")

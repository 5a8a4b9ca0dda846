"""The server of the app: answers its own pages alone, and keeps labels and fits in step."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

pytest.importorskip("tornado", reason="the app needs tornado: pip install 'nodeproof[app]'")

from app_helpers import RunningApp
from nodeproof import NodeClassifier
from nodeproof.app.journal import JOURNAL, Journal
from nodeproof.app.labels import LabelState
from nodeproof.datasets import make_planted
from nodeproof.query import query_nodes


@pytest.fixture(scope="module")
def data():
    return make_planted(
        cluster_size=60, p=0.3, q=0.03, label_ratio=0.3, label_accuracy=0.8, random_state=0
    )


@pytest.fixture(scope="module")
def fitted(data):
    return NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph).fitted_


@pytest.fixture
def app(fitted, tmp_path):
    with RunningApp(fitted, tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def idle(fitted, tmp_path_factory):
    """An app that nobody uses: all requests to it are refused, or change nothing."""
    with RunningApp(fitted, tmp_path_factory.mktemp("idle")) as running:
        yield running
        assert not running.session.labels.journal.path.exists()


def waited(app, until):
    """Return the state once a condition holds."""
    for _ in range(600):
        state = app.ask("/api/state")[1]
        if until(state) and not state["job"]["what"]:
            return state
        time.sleep(0.05)
    raise AssertionError(f"still waiting: {state['job']}")


PATHS = ["/", "/static/app.js", "/api/start", "/api/state", "/api/labels.csv", "/api/node/0",
         "/api/map", "/api/events", "/nothing"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_told(idle, path):
    for cookie in (None, f"{idle.server.cookie}=", f"{idle.server.cookie}=x", "other=1"):
        status, text, headers = idle.ask(path, Cookie=cookie)
        assert status == 403
        assert "Set-Cookie" not in headers
        assert idle.server.token not in str(text)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "origin", ["https://example.org", "null", "http://127.0.0.1", "http://127.0.0.1:1", ""]
)
def test_a_foreign_origin_is_refused(idle, path, origin):
    assert idle.ask(path, Origin=origin)[0] == 403


@pytest.mark.parametrize("path", ["/api/label", "/api/undo", "/api/refit", "/api/write"])
def test_actions_need_an_origin_a_token_and_json(idle, path):
    body = {"nodes": [0], "labels": [1], "kind": "label"}
    assert idle.ask(path, body, Origin=None)[0] == 403
    assert idle.ask(path, body, Origin="https://example.org")[0] == 403
    assert idle.ask(path, body, Cookie=None)[0] == 403
    assert idle.ask(path, body, Content_Type="text/plain")[0] == 415
    assert idle.ask(path, body, Content_Type="application/x-www-form-urlencoded")[0] == 415
    assert idle.ask(path)[0] == 404  # an action is no question
    assert not idle.session.labels.journal.path.exists()
    assert idle.session.round == 0


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "127.0.0.1:1", "evil.example:80", ""])
def test_a_foreign_host_is_refused(idle, host):
    assert idle.ask("/api/state", Host=host)[0] in (400, 403)


def test_localhost_is_the_same_machine(idle):
    port = idle.server.port
    host, origin = f"localhost:{port}", f"http://localhost:{port}"
    assert idle.ask("/api/state", Host=host, Origin=origin)[0] == 200


def test_only_this_machine_is_listened_to(idle):
    assert [socket.getsockname()[0] for socket in idle.server._sockets] == ["127.0.0.1"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/server.py",
        "/static/server.py", "/static//etc/passwd", "/static/....//page.html", "/../../etc/passwd",
        "/static/page.html%00.js", "/labels.jsonl", "/model.npz", "/api/node/-1", "/api/node/1e3",
        "/api/node/..", "/static/",
    ],
)  # fmt: skip
def test_paths_that_lead_elsewhere_are_refused(idle, path):
    status, text, _ = idle.ask(path)
    assert status in (400, 404)
    assert "import" not in str(text)


def test_requests_that_are_too_large_are_refused(idle):
    try:
        status = idle.ask("/api/label", b"x" * 5_000_000)[0]
    except (BrokenPipeError, ConnectionResetError):
        status = 413
    assert status in (400, 413)
    assert idle.ask("/api/state")[0] == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, b'{"nodes": [0]}', b"\xff"])
def test_requests_that_make_no_sense_are_answered_in_a_sentence(idle, body):
    status, answer, _ = idle.ask("/api/label", body)
    assert status == 400
    assert answer["error"]


def test_the_page_sets_a_cookie_that_scripts_cannot_read_and_loads_nothing_from_elsewhere(idle):
    path = idle.server.address.removeprefix(idle.origin)
    status, text, headers = idle.ask(path, Cookie=None, Origin=None)
    assert status == 200
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Strict" in headers["Set-Cookie"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "http" not in text.replace("http-equiv", "")
    assert idle.server.token not in text


def test_two_apps_have_two_tokens(fitted, tmp_path, app):
    with RunningApp(fitted, tmp_path) as other:
        assert other.server.token != app.server.token
        stolen = f"{other.server.cookie}={app.server.token}"
        assert other.ask("/api/state", Cookie=stolen)[0] == 403


def test_a_label_is_on_the_disk_when_it_is_confirmed(app, fitted):
    row = app.ask("/api/state")[1]["suspects"][0]
    suggested = int(fitted.codes[row])
    body = {"nodes": [row], "labels": [suggested], "kind": "label"}
    status, answer, _ = app.ask("/api/label", body)
    assert status == 200
    assert row not in answer["state"]["suspects"]
    assert answer["state"]["pending"] == 1
    again = LabelState(fitted, Journal(app.session.labels.journal.path))
    assert again.codes[row] == suggested


def test_windows_of_two_processes_see_each_others_labels(app, fitted, tmp_path):
    with RunningApp(fitted, tmp_path) as other:
        row = app.ask("/api/state")[1]["suspects"][0]
        body = {"nodes": [row], "labels": [int(fitted.given[row])], "kind": "confirm"}
        app.ask("/api/label", body)
        state = other.ask("/api/state")[1]
        assert row not in state["suspects"]
        assert state["counts"]["reviewed"] == 1
        assert other.ask("/api/undo", {})[1]["nodes"] == [row]  # the same window, by its name
        assert app.ask("/api/state")[1]["counts"]["reviewed"] == 0


def test_a_refit_takes_the_labels_up_and_says_what_has_changed(app, data, fitted):
    suspects = app.ask("/api/state")[1]["suspects"]
    truth = [int(data.y_true[row]) for row in suspects]
    app.ask("/api/label", {"nodes": suspects, "labels": truth, "kind": "relabel"})
    status, answer, _ = app.ask("/api/refit", {})
    assert status == 200
    assert answer["started"]
    state = waited(app, lambda state: state["round"] == 1)
    assert state["job"]["error"] == ""
    assert state["pending"] == 0
    last = state["rounds"][-1]
    assert last["labels"] == sum(truth[k] != fitted.given[row] for k, row in enumerate(suspects))
    assert last["changes"]["count"] == int((app.session.fitted.codes != fitted.codes).sum())
    given = app.session.fitted.given
    assert given[suspects].tolist() == truth
    assert len(state["asked"]) > 0
    assert all(given[row] < 0 for row in state["asked"])


def test_a_refit_is_taken_up_while_nodes_to_ask_for_are_chosen(app, data, monkeypatch):
    """In large graphs that takes long; the least certain nodes are proposed until it is done."""
    going, session = threading.Event(), app.session
    chosen = session._query
    monkeypatch.setattr(session, "_query", lambda: (going.wait(20), chosen())[1])
    session.ask(app.server.done)
    assert app.ask("/api/state")[1]["job"]["what"] == "ask"
    row = app.ask("/api/state")[1]["suspects"][0]
    app.ask("/api/label", {"nodes": [row], "labels": [int(data.y_true[row])], "kind": "label"})
    assert app.ask("/api/refit", {})[1]["started"]
    assert app.ask("/api/state")[1]["job"]["what"] == "refit"
    assert not app.ask("/api/refit", {})[1]["started"]
    going.set()
    state = waited(app, lambda state: state["round"] == 1)
    assert state["job"]["error"] == ""


def test_large_graphs_are_not_waited_for(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("nodeproof.app.session._QUICK", 10)
    with RunningApp(fitted, tmp_path) as app:
        assert len(app.ask("/api/state")[1]["asked"]) > 0
        waited(app, lambda state: not state["job"]["what"])
        expected = query_nodes(fitted, 100)[0]
        assert app.ask("/api/state")[1]["asked"] == expected.tolist()


def test_results_are_written_on_request(app):
    assert app.ask("/api/write", {})[1]["started"]
    state = waited(app, lambda state: state["written"])
    assert state["written"] == ["model.npz"]
    assert app.outputs.written == [app.session.fitted]


def test_what_speaks_for_a_node_adds_up(idle, fitted, data):
    row = int(fitted.suspects.node[0])
    node = idle.ask(f"/api/node/{row}")[1]
    assert np.argmax(node["proba"]) == fitted.codes[row]
    assert node["label"] == fitted.given[row]
    assert set(node["evidence"]) == {"graph", "features", "labels"}
    assert all(abs(sum(scores)) < 0.1 for scores in node["evidence"].values())
    adjacency = data.graph.tocsr()
    assert node["neighbours"]["count"] == len(adjacency[[row]].indices)
    listed = {other["row"] for other in node["neighbours"]["list"]}
    assert listed <= set(adjacency[[row]].indices.tolist())
    assert sum(node["neighbours"]["classes"]) == node["neighbours"]["count"]
    assert node["features"]
    assert idle.ask(f"/api/node/{fitted.n_nodes}")[0] == 400


def test_labels_are_exported(idle, fitted):
    status, text, headers = idle.ask("/api/labels.csv")
    assert status == 200
    assert "attachment" in headers["Content-Disposition"]
    assert len(text.splitlines()) == 1 + len(fitted.labelled)


def test_names_of_nodes_and_classes_are_kept_as_they_are(tmp_path):
    data = make_planted(cluster_size=30, p=0.5, q=0.02, label_ratio=0.4, random_state=0)
    import pandas as pd

    names = [f"<b>{k}</b>" for k in range(90)]
    y = pd.Series(data.y, index=names).map(lambda k: {-1: None}.get(k, f"</script>{k}"))
    X = pd.DataFrame(data.X, index=names)
    fitted = NodeClassifier(random_state=0).fit(X, y, graph=data.graph).fitted_
    with RunningApp(fitted, tmp_path) as app:
        start = app.ask("/api/start")[1]
        assert start["classes"] == [f"</script>{k}" for k in range(3)]
        assert start["names"] == names
        app.ask("/api/label", {"nodes": [3], "labels": [2], "kind": "label"})
        text = (tmp_path / JOURNAL).read_text()
        assert '"<b>3</b>"' in text
        assert '"</script>2"' in text


def test_a_model_without_labels_is_refused(tmp_path, data):
    from nodeproof.errors import InputError

    fitted = NodeClassifier(3, random_state=0).fit(data.X, graph=data.graph).fitted_
    with pytest.raises(InputError, match="fit again with a few labels"):
        RunningApp(fitted, tmp_path)

"""What SECURITY.md promises of the source, read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import nodeproof

SOURCE = Path(nodeproof.__file__).parent

# Who may use modules that run what they read, speak to a network or start programs.
ALLOWED = {
    "pickle": {"datasets/pickles.py"},
    "pickletools": {"datasets/pickles.py"},
    "pooch": {"datasets/fetching.py"},
    "webbrowser": {"cli/label.py"},  # opens the app's own page
}
GUARDED = {
    *ALLOWED,
    *("marshal", "shelve", "dill", "cloudpickle", "yaml", "code", "runpy", "pty"),
    *("socket", "socketserver", "ssl", "http", "urllib.request", "ftplib", "smtplib", "xmlrpc"),
    *("requests", "httpx", "aiohttp", "urllib3", "subprocess"),
}


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """Return the syntax of every module, by its file; read once, and not before it is asked for."""
    files = sorted(SOURCE.rglob("*.py"))
    return {
        str(path.relative_to(SOURCE)): list(ast.walk(ast.parse(path.read_text("utf-8"))))
        for path in files
    }


def imported(found: list[ast.AST]) -> Iterator[str]:
    """Yield what is imported, by a statement or by `import_module`."""
    for node in found:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) == "import_module":
            yield from (part.value for part in node.args if isinstance(part, ast.Constant))


@cache
def called(call: ast.Call) -> str:
    """Return the dotted name of what is called, as far as it has one."""
    return ast.unparse(call.func)


def calls() -> Iterator[ast.Call]:
    return (node for found in nodes().values() for node in found if isinstance(node, ast.Call))


def option(call: ast.Call, name: str) -> object:
    """Return the value of a keyword as it is written: a constant, else its text; None without."""
    for keyword in call.keywords:
        if keyword.arg == name:
            constant = isinstance(keyword.value, ast.Constant)
            return keyword.value.value if constant else ast.unparse(keyword.value)
    return None


def test_modules_that_run_data_start_programs_or_reach_out_are_used_only_where_they_must():
    found: dict[str, set[str]] = {}
    for file, syntax in nodes().items():
        for name in imported(syntax):
            for guarded in GUARDED:
                if name == guarded or name.startswith(f"{guarded}."):
                    found.setdefault(guarded, set()).add(file)
    assert found == ALLOWED


def offences(is_bad: Callable[[ast.AST], bool]) -> list[str]:
    """Return where in the source something stands that must not."""
    return [
        f"{file}:{node.lineno}: {ast.unparse(node)}"
        for file, syntax in nodes().items()
        for node in syntax
        if is_bad(node)
    ]


def bad_calls(is_bad: Callable[[str, ast.Call], bool]) -> list[str]:
    return offences(lambda node: isinstance(node, ast.Call) and is_bad(called(node), node))


def test_nothing_is_evaluated():
    names = {"eval", "exec", "compile", "__import__"}
    assert bad_calls(lambda name, _: name.removeprefix("builtins.") in names) == []


def test_no_shell_is_asked():
    starts = re.compile(r"os\.(system|popen|exec\w*|spawn\w*|posix_spawn\w*|startfile)")
    assert bad_calls(lambda name, call: bool(starts.fullmatch(name))) == []
    assert bad_calls(lambda _, call: option(call, "shell") not in (None, False)) == []


def test_temporary_files_are_not_guessed():
    assert bad_calls(lambda name, _: name.endswith("mktemp")) == []


def test_arrays_are_read_and_written_without_pickles():
    arrays = re.compile(r"(np|numpy)\.(load|save)")
    assert (
        bad_calls(lambda n, c: bool(arrays.fullmatch(n)) and option(c, "allow_pickle") is not False)
        == []
    )
    # Not every version of NumPy has the option here: `write_npz` does it.
    assert bad_calls(lambda name, _: bool(re.fullmatch(r"(np|numpy)\.savez\w*", name))) == []
    loads = {"joblib.load", "torch.load", "pd.read_pickle", "pandas.read_pickle"}
    assert bad_calls(lambda name, call: name in loads or bool(option(call, "allow_pickle"))) == []


def test_no_class_says_how_to_unpickle_it_and_no_file_format_is_extended():
    methods = {"__reduce__", "__reduce_ex__"}
    assert offences(lambda node: isinstance(node, ast.FunctionDef) and node.name in methods) == []
    types = {"ExtensionType", "register_extension_type"}
    assert offences(lambda node: isinstance(node, ast.Attribute) and node.attr in types) == []


def test_addresses_are_secure():
    # This is the name of SVG's elements, not a place.
    open_place = re.compile(r"http://(?!www\.w3\.org/2000/svg)")
    found = offences(
        lambda node: (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and bool(open_place.search(node.value))
        )
    )
    # The app answers on this machine alone (tests/test_app_server.py): nothing crosses a network.
    assert [place for place in found if not place.startswith("app/server.py:")] == []


def test_templates_escape_what_they_are_given():
    for call in calls():
        if called(call).endswith(("jinja2.Environment", "jinja2.Template")):
            assert option(call, "autoescape") is True
        assert not called(call).endswith("Markup")
    for page in SOURCE.rglob("*.html"):
        text = page.read_text("utf-8")
        assert "autoescape false" not in text
        # Files of the package itself, and JSON in which <, > and & are written as numbers.
        assert set(re.findall(r"(\w+)\s*\|\s*safe\b", text)) <= {"style", "script", "data"}


def test_duckdb_gets_no_extensions():
    connections = [call for call in calls() if called(call) == "duckdb.connect"]
    assert len(connections) == 1
    settings = ast.literal_eval(
        ast.Dict(*zip(*_constants(connections[0].keywords[0].value), strict=True))
    )
    assert settings["autoinstall_known_extensions"] is False
    assert settings["autoload_known_extensions"] is False


def _constants(given: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    assert isinstance(given, ast.Dict)
    return [
        (key, value)
        for key, value in zip(given.keys, given.values, strict=True)
        if key is not None and isinstance(value, ast.Constant)
    ]

"""What the tests of reading files share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeproof.errors import InputError
from nodeproof.tables.reading import Tables, read_tables

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def links_of(tables: Tables) -> dict[tuple[Any, Any], float]:
    """Return the links by their ids, each once."""
    graph = tables.graph.tocoo()
    assert (tables.graph != tables.graph.T).nnz == 0
    ids = tables.ids.tolist()
    triples = zip(graph.row, graph.col, graph.data, strict=True)
    return {(ids[u], ids[v]): float(w) for u, v, w in triples if u < v}


def refusal(*args: Any, read: Callable[..., Tables] = read_tables, **options: Any) -> str:
    """Return the message of the error, which must come without a chain of others."""
    with pytest.raises(InputError) as caught:
        read(*args, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value)

"""Turn roles in docstrings, such as ``:class:`nodeproof.graph.Graph```, into links."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:mod|class|func|meth|attr):<code>~?([\w.]+)</code>")


def on_page_content(content: str, **_: Any) -> str:
    """Replace the roles on a page; names without documentation stay plain."""
    return _ROLE.sub(r'<autoref optional identifier="\1"><code>\1</code></autoref>', content)

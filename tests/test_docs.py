"""Every example in the README and the docs runs and prints what stands beside it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import docs_helpers as docs
import nodeproof
from docs_helpers import ROOT, Block, read_blocks

NAMED = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")
PAGES = [ROOT / name for name in NAMED if (ROOT / name).exists()]
PAGES += sorted((ROOT / "docs").rglob("*.md"))

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.fixture(scope="module")
def example_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    docs.write_example_files(folder)
    return folder


@pytest.fixture
def workplace(tmp_path, monkeypatch, example_files, registry):
    """Go to a folder of its own with the files that pages speak of."""
    for path in example_files.rglob("*"):
        copy = tmp_path / path.relative_to(example_files)
        copy.mkdir() if path.is_dir() else copy.write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@every_page
def test_examples_print_what_the_page_says(page, workplace):
    namespace: dict = {"__name__": page.stem}
    left_out = []
    for block in read_blocks(page):
        if block.language in docs.FILES and "not run" not in block.comments:
            Path(block.title).write_text(block.text)
        elif block.includes:
            docs.write_included(block)
        elif not block.is_run:
            continue
        elif block.missing:
            left_out.append(f"{block} needs {', '.join(block.missing)}")
        else:
            docs.run(block, namespace)
    if left_out:
        pytest.skip("; ".join(left_out))


@every_page
def test_no_block_escapes(page):
    for line in docs.indented_code(page.read_text()):
        pytest.fail(f"{page.name}:{line}: fence this code and name its language")
    for block in read_blocks(page):
        _check(block)


def _check(block: Block) -> None:
    kind = block.language
    if kind in docs.FILES:
        named = block.title or "not run" in block.comments
        assert named, f"{block}: title this file, so that it can be written"
    elif kind == "text":
        assert "not run" in block.comments, f"{block}: no block before it prints this"
    else:
        known = {"python", *docs.SHELL, *docs.SHOWN}
        assert kind in known, f"{block}: nothing is known of blocks in {kind or 'no language'}"
    for path in block.includes:
        assert (ROOT / path).is_file(), f"{block} includes {path}, which does not exist"
    if kind == "python" and not block.includes:
        ast.parse(block.text, f"{block}")
    if kind in docs.SHELL:
        for line in docs.commands(block):
            assert not docs.unknown_words(line), f"{block}: {docs.unknown_words(line)} in {line}"


@every_page
def test_formulas_can_be_rendered(page):
    converter = pytest.importorskip("latex2mathml.converter", reason="without nodeproof[docs]")
    for block in read_blocks(page):
        if block.language == "math":
            assert "<math" in converter.convert(block.text), block


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_api_lists_all_that_is_public():
    pages = "".join(page.read_text() for page in (ROOT / "docs/api").glob("*.md"))
    for name in nodeproof.__all__:
        assert f"::: nodeproof.{name}" in pages, f"nodeproof.{name}"


def test_every_page_of_the_api_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs/api").glob("*.md"):
        assert f"api/{page.name}" in menu, page.name
    assert ":::" not in (ROOT / "docs/api.md").read_text(), "give it a page in docs/api"


def test_messages_that_a_page_explains_are_those_of_the_package():
    texts = [text for path in (ROOT / "src").rglob("*.py") for text in docs.texts_of(path)]
    page = (ROOT / "docs/faq.md").read_text()
    quoted = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert quoted
    for message in quoted:
        assert any(docs.is_part(message, text) for text in texts), message


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```\nx = 1\n```\n", "no language"),
        ("```ruby\nputs 1\n```\n", "ruby"),
        ("```text\nprinted by nothing\n```\n", "no block before it"),
        ("```csv\nnode,label\n```\n", "title this file"),
        ('```{ .python }\n--8<-- "src/nodeproof/none.py"\n```\n', "does not exist"),
        ("<!-- not run: slow -->\n```bash\nmake nonsense\n```\n", "nonsense"),
        ("<!-- not run: slow -->\n```bash\nnodeproof fit a.csv --nonsense 3\n```\n", "--nonsense"),
    ],
)
def test_blocks_that_nobody_would_run_are_found(text, complaint):
    [block] = read_blocks(ROOT / "page.md", text)
    with pytest.raises(AssertionError, match=complaint):
        _check(block)


def test_code_by_indentation_alone_is_found():
    assert list(docs.indented_code("Text\n\n    x = 1\n")) == [3]
    assert list(docs.indented_code("- item\n\n      x = 1\n")) == [3]
    assert not list(docs.indented_code("- item\n\n    more of the item\n"))
    assert not list(docs.indented_code("```python\nif x:\n\n    y = 1\n```\n"))
    assert not list(docs.indented_code("::: nodeproof\n\n    options:\n"))


def test_a_message_is_told_from_another_one(tmp_path):
    (tmp_path / "code.py").write_text('raise E(f"the graph has {n} nodes, " f"but y has {m}")')
    [text] = docs.texts_of(tmp_path / "code.py")
    assert docs.is_part("the graph has … nodes, but", text)
    assert docs.is_part("… but y has …", text)
    assert not docs.is_part("the graph has … links", text)
    assert not docs.is_part("but y … the graph", text)


def run_text(text: str) -> None:
    namespace: dict = {}
    for block in read_blocks(ROOT / "page.md", text):
        docs.run(block, namespace)


def test_blocks_of_a_page_build_on_each_other_and_are_compared_with_what_they_print():
    run_text("```python\nx = 2\n```\nand\n```python\nprint(x, 1)\n```\n\n```text\n2 …\n```\n")
    with pytest.raises(pytest.fail.Exception, match="but the page says"):
        run_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(ZeroDivisionError):
        run_text("```python\n1 / 0\n```\n")


def test_commands_are_run_as_a_shell_reads_them(workplace):
    run_text("```bash\nnodeproof convert 'links/*.parquet' graph  # quoted\n```\n")
    assert (workplace / "graph").is_dir()
    with pytest.raises(pytest.fail.Exception, match="exit code 2"):
        run_text("```bash\nnodeproof convert links/*.parquet other\n```\n")
    refused = "```bash\nnodeproof fit no.csv\n```\n\n```text\nnodeproof: …no.csv…\n```\n"
    run_text("<!-- exits: 2 -->\n" + refused)
    with pytest.raises(pytest.fail.Exception, match="only nodeproof"):
        run_text("```bash\nrm -r graph\n```\n")


def test_a_block_that_needs_a_package_is_left_out_without_it():
    text = "<!-- needs: numpy, no_such_package -->\n```python\nimport no_such_package\n```\n"
    [block] = read_blocks(ROOT / "page.md", text)
    assert block.missing == ["no_such_package"]

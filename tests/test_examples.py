"""The examples run as they are, by the code that makes the gallery of them."""

import importlib.util
import sys
import warnings
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[1]


def _load():
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs/hooks/gallery.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module
    spec.loader.exec_module(module)
    return module


gallery = _load()


@pytest.mark.parametrize("path", gallery.paths(), ids=lambda path: path.stem)
def test_every_example_runs_prints_and_draws(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        example = gallery.run_example(path)
    assert Path.cwd() == tmp_path
    assert example.printed.strip()
    assert example.pictures
    assert all(picture.startswith(b"\x89PNG") for picture in example.pictures)
    assert not list(tmp_path.iterdir())
    assert example.code.splitlines()[0].startswith(("import", "from"))
    assert len(path.read_text().splitlines()) <= 45


def test_the_gallery_has_every_example_once():
    names = [path.stem for path in gallery.paths()]
    assert sorted(names) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    assert names[0] == "ten_lines"
    assert set(gallery._ORDER) == set(names)


def test_a_page_shows_title_text_code_output_and_pictures(tmp_path):
    path = tmp_path / "drawn.py"
    path.write_text(
        '"""A title.\n\nWhat one learns.\n"""\n\nfrom matplotlib import pyplot as plt\n\n'
        "print(6 * 7)\nfor _ in range(2):\n    plt.subplots()\nplt.show()\n"
        'open("left behind", "w").close()\n'
    )
    example = gallery.run_example(path)
    assert example.page.startswith("# A title\n\nWhat one learns.\n\n```python\nfrom matplotlib")
    assert "```text\n42\n```" in example.page
    assert "(drawn_1.png)" in example.page
    assert "(drawn_2.png)" in example.page
    assert len(example.pictures) == 2
    assert not (Path.cwd() / "left behind").exists()


def test_an_example_must_say_what_one_learns(tmp_path):
    (tmp_path / "mute.py").write_text('"""Only a title."""\n')
    with pytest.raises(ValueError, match=r"mute\.py needs a docstring"):
        gallery.run_example(tmp_path / "mute.py")


def test_pages_go_below_the_gallery_in_the_menu(monkeypatch):
    one = gallery.Example("ten_lines", "Ten lines", "Text.", "code\n")
    monkeypatch.setattr(gallery, "_examples", lambda: [one])
    nav = ["index.md", {"Using it": [{"Gallery": "gallery.md"}, {"API": "api.md"}]}]
    gallery._enter(nav)
    pages = [{"All examples": "gallery.md"}, {"Ten lines": "gallery/ten_lines.md"}]
    assert nav == ["index.md", {"Using it": [{"Gallery": pages}, {"API": "api.md"}]}]

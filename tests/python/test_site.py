"""The documentation site: it builds without a warning, has every page and every public name once, and loads nothing from elsewhere."""
import collections
import html.parser
import importlib.util
import os
import subprocess
import sys

import pytest
from built import BUILD
from public_surface import namespaces

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCS = os.path.join(ROOT, "docs")


class Page(html.parser.HTMLParser):
    """ids: of its elements. links: of anchors. loaded: what a browser fetches."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag != "a":
            self.loaded += [values[name] for name in ("src", "href", "srcset", "data") if values.get(name)]


@pytest.fixture(scope="module")
def site():
    """The pages by their paths."""
    if importlib.util.find_spec("furo") is None or importlib.util.find_spec("myst_parser") is None:
        pytest.skip("sphinx, myst-parser and furo are not installed; ./dev setup brings them")
    folder = os.path.join(BUILD, "site")
    done = subprocess.run([sys.executable, os.path.join(DOCS, "build_site.py"), folder], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    pages = {}
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".html"):
                with open(os.path.join(where, name), encoding="utf-8") as f:
                    pages[os.path.relpath(os.path.join(where, name), folder)] = Page(f.read())
    return pages


def test_every_page_of_docs_is_in_the_site_and_reached_from_the_first(site):
    wanted = {name.replace(".md", ".html").replace("README", "index") for name in os.listdir(DOCS) if name.endswith(".md")}
    wanted |= {f"reference/{path}.html" for path, _, _ in namespaces()}
    assert wanted <= set(site)
    assert wanted - {"index.html"} <= {link.partition("#")[0] for link in site["index.html"].links}


def test_every_public_name_is_in_the_reference_once(site):
    ids = collections.Counter(one for page in site.values() for one in page.ids)
    names = [f"{path}.{name}" for path, module, names in namespaces() for name in names]
    modules = {f"module-{path}" for path, _, _ in namespaces()}
    assert len(names) > 600
    assert {name: ids[name] + ids[f"module-{name}"] for name in names} == dict.fromkeys(names, 1)
    assert {one: ids[one] for one in modules} == dict.fromkeys(modules, 1)
    assert ids["lamina.Tensor.numpy"] == ids["lamina.nn.Layer.call"] == ids["lamina.GradientTape.gradient"] == 1


def test_pages_load_nothing_from_elsewhere(site):
    for path, page in site.items():
        assert page.loaded and not [one for one in page.loaded if "://" in one or one.startswith("//")], path

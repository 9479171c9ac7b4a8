"""Builds the documentation site: the pages of docs/, and a reference made of the package's docstrings.

usage: build_site.py FOLDER

FOLDER gets the HTML pages, FOLDER-source the pages that Sphinx reads. docs/README.md is the first page; its tables give the order of the others.
"""
import inspect
import os
import re
import shutil
import sys
import types

from sphinx.application import Sphinx

import lamina as lm

DOCS = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(DOCS)
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
from public_surface import namespaces  # noqa: E402

SETTINGS = {
    "project": "Lamina", "version": lm.__version__, "release": lm.__version__, "html_title": "Lamina", "html_theme": "furo", "extensions": ["myst_parser"],
    "myst_heading_anchors": 4, "smartquotes": False, "html_copy_source": False, "html_show_copyright": False, "html_show_sphinx": False, "toc_object_entries_show_parents": "hide",
    "maximum_signature_line_length": 120, "python_use_unqualified_type_names": True, "add_module_names": False,
}


def signature(value) -> str:
    """How it is called: "(x, axis=None)"; "" for what only Lamina makes."""
    try:
        found = inspect.signature(value)
    except ValueError:
        return ""
    parameters = [p for p in found.parameters.values() if p.name != "self"]
    parameters = [p.replace(annotation=p.empty if p.annotation is p.empty else _typed(p.annotation),
                            default=_Shown("...") if repr(p.default).startswith("<") and p.default is not p.empty else p.default) for p in parameters]
    returned = found.return_annotation
    return str(found.replace(parameters=parameters, return_annotation=returned if returned is found.empty else _typed(returned)))


class _Shown(str):
    __repr__ = str.__str__


def _typed(annotation):
    """What Sphinx can show: no module names, no "object", and no "bool", which it would take for lamina.bool."""
    text = re.sub(r"[a-z_.]+\.", "", annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))
    return inspect.Parameter.empty if re.search(r"\b(object|bool)\b", text) else _Shown(text)


def text_of(value, name: str) -> str:
    """The docstring as Markdown: what is not between backticks or indented is plain text."""
    lines = inspect.cleandoc(inspect.getdoc(value) or "").split("\n")
    while type(value).__name__.startswith("nb_") and lines and lines[0].startswith(f"{getattr(value, '__name__', name)}("):
        lines.pop(0)  # nanobind puts the signatures first
    return "\n".join(line if line.startswith("    ") else "`".join(part if i % 2 else _plain(part) for i, part in enumerate(line.split("`"))) for line in lines).strip()


def _plain(text: str) -> str:
    return re.sub(r"^([+#>])", r"\\\1", re.sub(r"([*<\[\]{}])", r"\\\1", text))


def directive(kind: str, head: str, body: str, depth: int, options: str = "") -> str:
    fence = "`" * (9 - depth)
    return f"{fence}{{{kind}}} {head}\n{options}\n{body}\n{fence}\n"


def members(cls, public: set) -> str:
    """The public members that it adds to its public bases."""
    out = []
    inherited = {name for base in cls.__mro__[1:] if base in public or base.__module__ == "builtins" for name in dir(base)}
    for name in sorted(n for n in dir(cls) if not n.startswith("_") and n not in inherited):
        raw, value = inspect.getattr_static(cls, name), getattr(cls, name)
        if callable(value) and not isinstance(value, type):
            option = ":classmethod:\n" if isinstance(raw, classmethod) else ":staticmethod:\n" if isinstance(raw, staticmethod) else ""
            out.append(directive("py:method", name + (signature(value) or "()"), text_of(value, name), 1, option))
        else:
            out.append(directive("py:attribute", name, text_of(raw, name) if inspect.isdatadescriptor(raw) else "", 1))
    return "\n".join(out)


def entry(name: str, value, public: set) -> str:
    if isinstance(value, type):
        above = [base for base in value.__bases__ if base in public] or [base for base in value.__mro__[1:] if base in public][:1]
        bases = ", ".join(f"{{py:class}}`{base.__name__}`" for base in above)
        body = (f"A subclass of {bases}.\n\n" if bases else "") + text_of(value, name) + "\n\n" + members(value, public)
        error = issubclass(value, BaseException)
        return directive("py:exception" if error else "py:class", name + ("" if error else signature(value)), body, 0)
    if callable(value):
        return directive("py:function", name + (signature(value) or "()"), text_of(value, name), 0)
    if isinstance(value, (str, int, float, type(None))):
        return directive("py:data", name, "", 0, f":value: {value!r}\n")
    return directive("py:data", name, "", 0, f":type: {type(value).__name__}\n")


def reference(folder: str) -> list[str]:
    """Writes a page per namespace, and returns their names."""
    found = list(namespaces())
    public = {value for _, module, names in found for name in names if isinstance(value := getattr(module, name), type)}
    pages = []
    for path, module, names in found:
        parts = [f"# {path}\n", f"```{{py:module}} {path}\n```\n", text_of(module, path) + "\n"]
        modules = [name for name in sorted(names) if isinstance(getattr(module, name), types.ModuleType)]
        if modules:
            parts.append("Modules: " + ", ".join(f"[{name}]({path}.{name}.md)" for name in modules) + "\n")
        parts += [entry(name, getattr(module, name), public) for name in sorted(names) if name not in modules]
        pages.append(f"reference/{path}")
        with open(os.path.join(folder, pages[-1] + ".md"), "w", encoding="utf-8") as f:
            f.write("\n".join(parts))
    return pages


def toctree(caption: str, pages: list[str]) -> str:
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"


def write_pages(folder: str) -> None:
    """The pages that Sphinx reads: those of docs/, with links to files of the tree as seen from here, and the reference."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "reference"))
    parts: list[tuple[str, list[str]]] = []
    for name in os.listdir(DOCS):
        if not name.endswith(".md"):
            continue
        with open(os.path.join(DOCS, name), encoding="utf-8") as f:
            text = re.sub(r"\[[^]]*\]\(\.\./([^)]*\.md)\)", r"`\1`", f.read()).replace("](../", f"]({os.path.relpath(ROOT, folder)}/")
        if name == "README.md":
            for part, page in re.findall(r"^\| (?:(.+) )?\| \[\S+\]\((\S+)\.md\) \|", text, re.M):
                parts.append((part, [])) if part else None
                parts[-1][1].append(page)
            text += "".join(toctree(part, pages) for part, pages in parts)
            text += toctree("Python reference", reference(folder))
        with open(os.path.join(folder, name.replace("README", "index")), "w", encoding="utf-8") as f:
            f.write(text)


def build(target: str) -> int:
    source = target.rstrip("/") + "-source"
    write_pages(source)
    app = Sphinx(source, None, target, os.path.join(source, ".doctrees"), "html", confoverrides=SETTINGS, status=None, freshenv=True, warningiserror=True)
    app.build()
    return app.statuscode


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(build(os.path.abspath(sys.argv[1])))

#!/usr/bin/env python3
"""The rows of rows.txt and the tests marked with their IDs, as a table. Fails when a row has neither a test nor a reason.

usage: rows.py [-q]     -q: only errors, and the counts
"""
import ast
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def rows():
    """ID -> (its requirement, whether that is a reason for having no test)."""
    out = {}
    with open(os.path.join(HERE, "rows.txt"), encoding="utf-8") as f:
        for line in f:
            if line.startswith("#") or not line.strip():
                continue
            name, text = line.split(None, 1)
            out[name] = (text.strip().removeprefix("- "), text.startswith("- "))
    return out


def carriers(folder=os.path.join(HERE, "python")):
    """ID -> the tests marked with it, as "test_function.py: name"."""
    out = {}
    for name in sorted(os.listdir(folder)):
        if not (name.startswith("test_") and name.endswith(".py")):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            tree = ast.parse(f.read())
        for node in tree.body:
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and getattr(mark.func, "attr", getattr(mark.func, "id", "")) == "row":
                    for argument in mark.args:
                        out.setdefault(argument.value, []).append(f"{name}: {node.name}")
    return out


def problems(known, carried):
    """The errors, as lines."""
    lines = [f"{name}: no test carries it and there is no reason" for name, (_, reason) in known.items() if not reason and name not in carried]
    return lines + [f"{tests[0]} carries {name}, which is no row" for name, tests in carried.items() if name not in known]


def main(quiet):
    known, carried = rows(), carriers()
    if not quiet:
        for name, (text, reason) in known.items():
            tests = carried.get(name, [])
            print(f"{name:6} {text}")
            print("       " + ("; ".join(tests) if tests else "no test: see above" if reason else "MISSING"))
    wrong = problems(known, carried)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(known)} rows: {len([n for n in known if n in carried])} with tests, {len([n for n, (_, r) in known.items() if r and n not in carried])} with a reason, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main("-q" in sys.argv[1:]))

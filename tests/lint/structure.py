#!/usr/bin/env python3
"""Checks the structure of the tree: file sizes, include cycles, layering, CUDA includes, readers of settings, lists of ops, READMEs, and
forbidden words.

usage: structure.py [ROOT] [--report]
Exit status 1 when a rule is broken; every line says what, where, and how to fix it. The rules are the tables below, and exist nowhere else
in the project.
"""
import os, re, sys

from readmes import stale_rules

# Lowest first. A folder may include itself and anything on a lower line.
# Folders on the same line may not include each other.
LAYERS = [
    ["runtime/core"],
    ["runtime/device"],
    ["runtime/cuda"],
    ["kernels"],
    ["runtime/exec", "runtime/io", "runtime/data"],
    ["runtime/dist"],
    ["graph/ir"],
    ["graph/ops"],
    ["graph/cost"],
    ["graph/autodiff", "graph/passes"],
    ["graph/compile"],
    ["graph/frontend"],
    ["graph/functions"],
    ["graph/nn", "graph/program", "graph/export_c"],
    ["include/lamina", "capi", "tools"],
    ["python_bindings/src"],
    ["tests"],
    ["perf"],
]
# Only these folders may include these headers.
ONLY = {
    r"^runtime/cuda/": ["runtime/cuda", "runtime/dist", "kernels/cuda", "tests/cuda", "perf"],
    r"^(cuda|cublas|cudnn|curand|cub/|thrust/)": ["runtime/cuda", "kernels/cuda", "tests/cuda", "perf"],
    r"^nvtx3/": ["tests/cuda"],
    r"^nccl": ["runtime/cuda", "runtime/dist", "tests/cuda"],
    r"^mpi\.h": ["runtime/dist/mpi", "tests/mpi"],
    r"^(nanobind|pybind11|Python\.h)": ["python_bindings/src"],
}
LIMITS = {".h": 300, ".cpp": 600, ".cu": 600, ".py": 600}   # lines
# Each of these folders that exists must have a README.md of at most README_LINES lines.
README_LINES = 40
READMES = """cmake runtime/core runtime/device runtime/cuda runtime/exec runtime/data runtime/io runtime/dist kernels kernels/shared kernels/section
    kernels/cpu kernels/cuda graph graph/ir graph/ops graph/autodiff graph/passes graph/cost graph/compile graph/frontend graph/functions graph/nn
    graph/program include/lamina capi tools python_bindings python_bindings/src python_bindings/lamina tests tests/emulated tests/fuzz tests/lint perf docker docs examples""".split()
# Nothing in the project may refer to the machine it was written on.
FORBIDDEN = [(re.compile(pattern), why) for pattern, why in [
    (r"/work/\w", "a path of one machine"), (r"/(root|home)/\w", "a path of one machine"), (r"\.\./shared\b", "a path outside of the project"),
    (r"/opt/wheels|pip\.conf|[a-z]\.pythonhosted\.org|(deb|security)\.debian\.org|archive\.ubuntu\.com|pypi\.org/simple", "a host or place that packages come from"),
]]
EXT = tuple(LIMITS) + (".inc",)
SKIP = re.compile(r"build($|-)|\.|__pycache__$")   # folders that do not belong to the project
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)


def read_tree(root):
    files = {}
    for folder, dirs, names in os.walk(root):
        dirs[:] = [d for d in dirs if not SKIP.match(d)]
        for name in names:
            if name.endswith(EXT):
                path = os.path.join(folder, name)
                with open(path, errors="replace") as f:
                    files[os.path.relpath(path, root)] = f.read()
    return files


def layer(path):
    best, size = None, -1
    for rank, group in enumerate(LAYERS):
        for folder in group:
            if path.startswith(folder + "/") and len(folder) > size:
                best, size = (rank, folder), len(folder)
    return best


def cycles(graph):
    """Strongly connected components with more than one file (Tarjan, without recursion)."""
    index, low, on, stack, found, count = {}, {}, set(), [], [], 0
    for start in graph:
        if start in index:
            continue
        work = [(start, iter(graph[start]))]
        index[start] = low[start] = count; count += 1; stack.append(start); on.add(start)
        while work:
            v, edges = work[-1]
            for w in edges:
                if w not in index:
                    index[w] = low[w] = count; count += 1; stack.append(w); on.add(w)
                    work.append((w, iter(graph[w])))
                    break
                if w in on:
                    low[v] = min(low[v], index[w])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[v])
                if low[v] == index[v]:
                    part = []
                    while True:
                        w = stack.pop(); on.discard(w); part.append(w)
                        if w == v:
                            break
                    if len(part) > 1:
                        found.append(sorted(part))
    return found


def include_rules(files):
    """Broken include rules and the graph of includes."""
    bad, graph = [], {}
    for path, text in files.items():
        graph[path] = set()
        for name in INCLUDE.findall(text):
            here = os.path.normpath(os.path.join(os.path.dirname(path), name))
            target = name if name in files else "include/" + name if "include/" + name in files else here if here in files else None
            if target:
                graph[path].add(target)
            for pattern, folders in ONLY.items():
                if re.match(pattern, name) and not any(path.startswith(f + "/") for f in folders):
                    bad.append(f"{path}: includes <{name}>, which only {', '.join(folders)} may include. "
                               f"Fix: move that code there and declare what you need in a plain header.")
    for path, targets in graph.items():
        a = layer(path)
        if a is None and path.endswith((".h", ".cpp", ".cu", ".inc")) and not path.startswith(("examples/", "docs/")):
            bad.append(f"{path}: under no listed folder. Fix: move it into one, or add the folder to LAYERS.")
        for target in targets:
            b = layer(target)
            if a and b and a[1] != b[1] and b[0] >= a[0]:
                how = "upward" if b[0] > a[0] else "sideways"
                bad.append(f"{path}: {how} include of {target} ({a[1]} may not know {b[1]}). "
                           f"Fix: move the shared part down, or pass it in as an argument.")
    for part in cycles(graph):
        bad.append(f"{part[0]}: include cycle through {', '.join(part[1:])}. Fix: split out what both need.")
    return bad, graph


# A std::mutex held by another thread during a fork stays locked in the child for ever.
LOCKS = re.compile(r"\bstd::((recursive_|shared_|timed_|recursive_timed_)?mutex|condition_variable(_any)?)\b|\bpthread_(atfork|mutex_\w+|cond_\w+)\b")
LOCKS_MAY = ("runtime/core/mutex.", "tests/", "perf/", "examples/", "docs/")


def lock_rules(files):
    bad = []
    for path, text in files.items():
        if path.startswith(LOCKS_MAY):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            found = LOCKS.search(line.split("//")[0])
            if found:
                bad.append(f"{path}:{number}: {found[0]} does not survive a fork. Fix: use Mutex, RecursiveMutex, Condition or on_fork of runtime/core/mutex.h.")
    return bad


# The name of a setting in code that reads the environment.
SETTING = re.compile(r"""["']LAMINA_[A-Z0-9_]+["']""")
SETTINGS_OF = ("runtime/", "kernels/", "graph/", "include/", "python_bindings/")


def setting_rules(files):
    bad = []
    for path, text in files.items():
        if not path.startswith(SETTINGS_OF) or path == "runtime/core/settings.cpp":
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if found := SETTING.search(line):
                bad.append(f"{path}:{number}: {found[0]} is read here. Fix: give it a row in runtime/core/settings.cpp and ask config::text, number or is_on.")
    return bad


# Only these files list names of ops. A list is a run of distinct names with at most OP_GAP other words between neighbours.
OP_TABLE, OP_LIST, OP_GAP = "kernels/shared/elementwise_ops.inc", "graph/ops/ops.inc", 8
OP_LISTS_MAY = ("tests/", "perf/", "examples/", "docs/", "graph/export_c/scalar_functions.cpp", "graph/frontend/complex_ops.cpp",   # formulas and expected results, case by case
                "python_bindings/lamina/xp/")   # the array API standard's own list, with its names
OWN_DOCS = set("constant max_pool2d nonzero unique cond scan while_loop random_uniform random_normal".split())   # more than the op of that name


def longest_run(words, names):
    best, run, last = [], [], 0
    for at, word in enumerate(words):
        if word not in names:
            continue
        if at - last > OP_GAP + 1:
            run = []
        if word not in run[-3:]:   # a row may repeat its name
            run = [*run[run.index(word) + 1:], word] if word in run else [*run, word]
        best, last = max(best, run, key=len), at
    return best


def op_list_rules(files):
    """One list of ops, one of activations, and one docstring per op."""
    if OP_TABLE not in files:
        return []
    rows = re.findall(r"^(\w+)\((\w+)", files[OP_TABLE] + files.get(OP_LIST, ""), re.M)
    ops = {name for kind, name in rows if kind in ("ELEMENTWISE", "OP")}
    lists = [("ops", ops, 18), ("activations", {name for kind, name in rows if kind == "ACTIVATION"}, 5)]
    bad = []
    for path, text in files.items():
        if path in (OP_TABLE, OP_LIST) or path.startswith(OP_LISTS_MAY):
            continue
        code = re.sub(r"#.*" if path.endswith(".py") else r"//.*", "", text)
        code = re.sub(r'"(?:[^"\\\n]|\\.)*"', lambda m: m[0] if m[0][1:-1].isidentifier() else "text", code)   # a docstring counts as one word
        words = re.findall(r"\w+", code)
        for what, names, most in lists:
            found = longest_run(words, names)
            if len(found) > most:
                bad.append(f"{path}: lists {len(found)} {what}, {found[0]} to {found[-1]}. Fix: make the list from {OP_TABLE} or {OP_LIST}.")
        if path.startswith("python_bindings/src/"):
            for statement in re.split(r"(?=m\.def\(|add_both\()", code)[1:]:
                name = re.match(r'(?:m\.def|add_both)\(\s*(?:m,\s*)?"(\w+)"', statement)
                if name and name[1] in ops - OWN_DOCS and re.search(r"\btext\b", statement) and "doc_of(" not in statement:
                    bad.append(f"{path}: {name[1]} has a docstring of its own. Fix: write doc_of(\"{name[1]}\"), and the text into the op's row or OpDef.")
    return bad


def size_rules(files):
    bad = []
    for path, text in files.items():
        n, limit = text.count("\n"), LIMITS.get(os.path.splitext(path)[1], 10**9)
        if n > limit:
            bad.append(f"{path}: {n} lines, the limit is {limit}. Fix: split it by topic.")
    return bad


def readme_rules(root):
    bad = []
    for folder in READMES:
        path = os.path.join(folder, "README.md")
        if not os.path.isdir(os.path.join(root, folder)) or not any(n != "__pycache__" for n in os.listdir(os.path.join(root, folder))):
            continue
        if not os.path.exists(os.path.join(root, path)):
            bad.append(f"{path}: missing. Fix: say what is there, in what order to read it, and what may include what.")
            continue
        with open(os.path.join(root, path), errors="replace") as f:
            n = len(f.readlines())
        if n > README_LINES:
            bad.append(f"{path}: {n} lines, the limit is {README_LINES}. Fix: move the detail beside the code or into docs/.")
    return bad


def word_rules(root):
    """Checks every text file of the project except this one, which must name the words."""
    bad = []
    for folder, dirs, names in os.walk(root):
        dirs[:] = [d for d in dirs if not SKIP.match(d) or d == ".ci"]
        for name in names:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, root)
            # In a second working tree .git is a file that names the first one.
            if short in ("tests/lint/structure.py", ".git") or name.endswith(".log") or os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as f:
                data = f.read()
            if b"\0" in data:
                continue
            for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
                for pattern, why in FORBIDDEN:
                    found = pattern.search(line)
                    if found:
                        bad.append(f"{short}:{number}: names '{found[0]}', {why}. Fix: say it without.")
    return bad


def main():
    root = next((a for a in sys.argv[1:] if not a.startswith("-")), ".")
    files = read_tree(root)
    bad, graph = include_rules(files)
    bad += op_list_rules(files) + size_rules(files) + lock_rules(files) + setting_rules(files) + readme_rules(root) + stale_rules(root, SKIP) + word_rules(root)
    sizes = sorted((t.count("\n"), p) for p, t in files.items())
    if "--report" in sys.argv and sizes:
        n = len(sizes)
        print(f"{n} files, {sum(s for s, _ in sizes)} lines; median {sizes[n // 2][0]}, p90 {sizes[n * 9 // 10][0]}, "
              f"largest {sizes[-1][0]} ({sizes[-1][1]})")
        print(f"include cycles {len(cycles(graph))}; broken rules {len(bad)}")
    print(*bad, sep="\n", end="\n" if bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

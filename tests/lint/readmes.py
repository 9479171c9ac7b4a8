"""Finds names in READMEs, ARCHITECTURE.md, CONTRIBUTING.md and pages of docs/ that the tree lacks: files, commands of ./dev, targets,
variables. And a README of the tree that is too long."""
import fnmatch, os, re

PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")  # and every page of docs/
README_WORDS = 700
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
FILE = re.compile(r"[\w.*-]+(/[\w.*-]+)*\.(py|pyi|h|cpp|cu|inc|md|sh|json|txt|cmake|toml|svg|lock|Dockerfile)")
FOLDER = re.compile(r"[a-z_]+(/[\w*-]+)+")
ANY_NAME = re.compile(r"^build|(^|[/_.-])([xX]|NAME|FILE|CARD)([_.]|$)|\.\.\.")  # made by the build, or letters that stand for a name
COMMAND = re.compile(r"\./dev +(\w+)")
WORDS = ((re.compile(r"\blamina_\w+"), "the build target"), (re.compile(r"\bLAMINA_[A-Z0-9_]+"), "the variable"))
SOURCES = (".cpp", ".h", ".cu", ".py", ".cmake", ".txt", ".sh", ".in", ".toml")


class Tree:
    def __init__(self, root, skip):
        self.paths, self.texts = set(), {}
        for folder, dirs, names in os.walk(root):
            dirs[:] = [d for d in dirs if not skip.match(d)]
            for name in dirs + names:
                path = os.path.normpath(os.path.join(os.path.relpath(folder, root), name))
                self.paths.add(path)
                if name in names and (name.endswith(SOURCES + (".md",)) or path == "dev"):
                    with open(os.path.join(root, path), errors="replace") as f:
                        self.texts[path] = f.read()
        self.names = {os.path.basename(p) for p in self.paths}

    def has(self, page, name):
        """Looks from the page's folder, from the root and from folders searched for headers or packages; a name without a folder may be
        anywhere."""
        if "/" not in name:
            return bool(fnmatch.filter(self.names, name))
        starts = (os.path.dirname(page), "", "include", "python_bindings")
        if "." not in name and not any(os.path.normpath(os.path.join(s, name.split("/")[0])) in self.paths for s in starts):
            return True  # not a path: its first part is not a folder
        places = [os.path.normpath(os.path.join(s, name)) for s in starts]
        return any(place + end in self.paths or fnmatch.filter(self.paths, place + end) for place in places for end in ("", ".*"))


def named_files(text):
    for link in LINK.findall(text):
        if "://" not in link:
            yield link
    for span in SPAN.findall(text):
        for word in span.split():
            word = word.strip(",;:()\"'").removeprefix("./")
            if (FILE.fullmatch(word) or FOLDER.fullmatch(word)) and not ANY_NAME.search(word):
                yield word


def stale_rules(root, skip):
    tree, bad = Tree(root, skip), []
    dev = tree.texts.get("dev", "")
    in_code = {w for path, text in tree.texts.items() if not path.endswith(".md") for w in re.findall(r"\w+", text)}
    for page, text in sorted(tree.texts.items()):
        if not (os.path.basename(page) in PAGES or re.fullmatch(r"docs/.*\.md", page)):
            continue
        prose = FENCE.sub("", text)
        missing = {name: "the file or folder" for name in named_files(prose) if not tree.has(page, name)}
        missing |= {c: "the command of ./dev" for c in COMMAND.findall(text) if not re.search(rf"^  {c}\b", dev, re.M)}
        spans = " ".join(SPAN.findall(prose))
        for pattern, what in WORDS:
            missing |= {w: what for w in pattern.findall(spans) if w not in in_code}
        for name, what in missing.items():
            line = text[:text.find(name)].count("\n") + 1
            bad.append(f"{page}:{line}: names {what} '{name}', which does not exist. Fix: name what is there now.")
    if (words := len(tree.texts.get("README.md", "").split())) > README_WORDS:
        bad.append(f"README.md:1: has {words} words, and {README_WORDS} are the limit. Fix: say it shorter, or on a page of docs/.")
    return bad

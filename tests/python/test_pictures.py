"""Pictures: model.plot(), History.plot(), the page of an Explanation, and what notebooks show."""
import html.parser
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml

import numpy as np
import pytest

import lamina as lm

NASTY = '<b onclick="x()">&\'"</script><script>alert(1)</script>]]>--> \x01 \u2028 é'
SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "input", "br", "img", "link"}


class Page(html.parser.HTMLParser):
    """The elements of a page or part of one; fails where tags are not balanced, or something is loaded or runs beside the page's own script."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "href")], (tag, attributes)
        self.elements.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def having(self, **wanted):
        return [a for _, a in self.elements if all(a.get(name.rstrip("_"), "").split()[:1] == [value] for name, value in wanted.items())]


def drawing(picture):
    root = xml.fromstring(str(picture))
    assert root.tag == SVG + "svg" and "href" not in str(picture).replace("marker", "") and "<script" not in str(picture)
    return root


def boxes(root, kind):
    """{first line: (lines, rectangle)} of the boxes of a kind."""
    out = {}
    for g in root.iter(SVG + "g"):
        if g.get("class") == kind:
            lines = [t.text for t in g.findall(SVG + "text")]
            r = g.find(SVG + "rect")
            out[lines[0]] = lines, tuple(float(r.get(k)) for k in ("x", "y", "width", "height"))
    return out


def inside(a, b):
    return b[0] <= a[0] and b[1] <= a[1] and a[0] + a[2] <= b[0] + b[2] + 0.2 and a[1] + a[3] <= b[1] + b[3] + 0.2


class Block(lm.nn.Layer):
    def __init__(self, name):
        super().__init__(name=name)
        self.a, self.b = lm.nn.Dense(16, activation="relu", name=f"{name}_a"), lm.nn.Dense(8, name=f"{name}_b")

    def call(self, x):
        return x + self.b(self.a(x))


class Net(lm.nn.Model):
    def __init__(self, first="one"):
        super().__init__(name="net")
        self.blocks = [Block(first), Block("two")]
        self.head = lm.nn.Dense(3, name="head")

    def call(self, x):
        y = lm.tanh(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x + y), lm.sum(x)


def test_a_model_is_drawn_with_layers_in_their_groups(tmp_path):
    net = Net()
    net(lm.ones([2, 8]))
    picture = net.plot(tmp_path / "m.svg")
    assert (tmp_path / "m.svg").read_text(encoding="utf-8") == picture == picture._repr_svg_()
    root = drawing(picture)
    layers, groups, ops = boxes(root, "layer"), boxes(root, "group"), boxes(root, "op")
    assert layers["one_a"][0] == ["one_a", "Dense, 144 parameters", "n × 16"] and layers["head"][0][2] == "n × 3"
    assert set(groups) == {"net", "one", "two"} and set(layers) == {"one_a", "one_b", "two_a", "two_b", "head"} and {"tanh", "sum", "add"} <= set(ops)
    for name, (_, rectangle) in layers.items():
        for group in ("one", "two"):
            assert inside(rectangle, groups[group][1]) == name.startswith(group)
    assert set(boxes(root, "output")) == {"output 0", "output 1"} and set(boxes(root, "input")) == {"input"}
    _, _, width, height = map(float, root.get("viewBox").split())
    everything = [r for kind in ("layer", "op", "input", "output") for _, r in boxes(root, kind).values()]
    assert all(inside(r, (0, 0, width, height)) for r in everything)
    for i, a in enumerate(everything):  # nothing lies on another
        for b in everything[:i]:
            assert a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]
    assert layers["one_a"][1][1] < layers["one_b"][1][1] < layers["two_a"][1][1] < layers["head"][1][1]


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_are_laid_out_without_overlaps(seed):
    from lamina._drawing import Box, svg_of

    rng = np.random.default_rng(seed)

    def group(depth, key):
        box = Box(key, [f"{key}"], "group")
        for i in range(int(rng.integers(1, 9))):
            child = group(depth + 1, (*key, i)) if depth < 2 and rng.random() < 0.3 else Box((*key, i), ["x" * int(rng.integers(1, 60))] * int(rng.integers(1, 4)))
            box.inside[child.key] = child
        keys = list(box.inside)
        for _ in range(int(rng.integers(0, 15))):
            a, b = rng.integers(0, len(keys), 2)
            box.edges[keys[a], keys[b]] = True  # also to itself, and back
        return box

    root = group(0, ())
    picture = svg_of(root)
    drawing(picture)

    def check(box):
        children = list(box.inside.values())
        for i, a in enumerate(children):
            assert a.x >= -0.1 and a.y >= -0.1 and a.x + a.width <= box.width + 0.1 and a.y + a.height <= box.height + 0.1
            for b in children[:i]:
                assert a.x + a.width <= b.x + 0.1 or b.x + b.width <= a.x + 0.1 or a.y + a.height <= b.y + 0.1 or b.y + b.height <= a.y + 0.1
            check(a)
        assert len(box.routes) == len([1 for a, b in box.edges if a != b])

    check(root)


def test_models_of_every_kind_can_be_drawn():
    given = lm.nn.Input((4,))
    shared = lm.nn.Dense(4, name="shared")
    chain = lm.nn.Model(given, shared(lm.nn.Dense(4, name="between")(shared(given))))  # the shared layer is before and after
    root = drawing(chain.plot())
    assert set(boxes(root, "layer")) == {"shared", "between"} and [p for p in root.iter(SVG + "path") if p.get("class") == "back"]
    deep = lm.nn.Sequential([lm.nn.Input((4,)), lm.nn.Sequential([lm.nn.Dense(4, name="in"), lm.nn.Dropout(0.5, name="drop")], name="body"), *(lm.nn.Dense(4) for _ in range(100))])
    root = drawing(deep.plot())
    assert len(boxes(root, "layer")) >= 101 and "body" in boxes(root, "group")
    with pytest.raises(lm.errors.StateError, match="do not exist"):
        lm.nn.Sequential([lm.nn.Dense(3)]).plot()
    for path, kind in (("m.png", lm.errors.InvalidArgument), ("no/folder/m.svg", lm.errors.BadFile), (3, lm.errors.TypeMismatch)):
        with pytest.raises(kind):
            deep.plot(path)


def test_curves_are_drawn_and_leave_gaps(tmp_path):
    net = lm.nn.Sequential([lm.nn.Dense(3)])
    net.compile("sgd", "mse")
    x, y = np.ones([20, 5], "float32"), np.ones([20, 3], "float32")
    history = net.fit(x, y, epochs=5, verbose=0, validation_data=(x, y))
    picture = history.plot(tmp_path / "curves.svg")
    root = drawing(picture)
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8") == picture
    lines = [p for p in root.iter(SVG + "path") if "line" in p.get("class")]
    assert len(lines) == 2 and all(p.get("d").count("M") == 1 and p.get("d").count("L") == 4 for p in lines)
    texts = [t.text for t in root.iter(SVG + "text")]
    assert {"loss", "val_loss"} <= set(texts)
    heights = [float(c.get("cy")) for c in root.iter(SVG + "circle") if c.get("class") == "c0"]
    assert heights == sorted(heights) and history.history["loss"] == sorted(history.history["loss"], reverse=True)  # a smaller loss is lower
    history.history |= {NASTY: [1.0, float("nan"), 2.0, float("inf"), 3.0], "constant": [0.0] * 5, "never": [float("nan")] * 5}
    root = drawing(history.plot())
    (gaps,) = [p for p in root.iter(SVG + "path") if p.get("d", "").count("M") == 3]
    with pytest.raises(lm.errors.StateError):
        lm.nn.History().plot()


def explained():
    net = lm.nn.Sequential([lm.nn.Dense(8, activation="relu", name="first"), lm.nn.Dense(3, name=NASTY.replace("/", "|"))], name="net")
    sgd = lm.optim.SGD(0.1)

    @lm.function
    def step(x, y):
        with lm.GradientTape() as tape:
            cost = lm.mean(lm.square(net(x) - y))
        variables = net.trainable_variables
        sgd.apply_gradients(zip(tape.gradient(cost, variables), variables))
        return lm.sort(net(x), axis=1)

    x, y = lm.ones([4, 5]), lm.ones([4, 3])
    step(x, y)
    with lm.profiler.record() as record:
        for _ in range(3):
            step(x, y)
    return step.explain(x, y), record


def test_the_page_of_an_explanation_has_lanes_groups_and_numbers(tmp_path):
    plan, record = explained()
    plan.save(tmp_path / "x.html", record)
    with pytest.raises(lm.errors.TypeMismatch, match="(?s)record is 3.*lm.profiler.record"):
        plan.save(tmp_path / "y.html", 3)
    with pytest.raises(lm.errors.StateError, match="(?s)still runs.*after the with block"), lm.profiler.record() as running:
        plan.save(tmp_path / "y.html", running)
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert text == plan.html(record) and "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
    page = Page(text)
    (policy,) = [a["content"] for tag, a in page.elements if tag == "meta" and "content" in a]
    assert policy.startswith("default-src 'none'") and [tag for tag, _ in page.elements].count("script") == 2
    (data,) = [json.loads(text) for where, text in page.texts if where == "script" and text.startswith("{")]
    assert len(page.having(class_="lane")) == 1 and len(page.having(class_="launch")) == len(plan.launches) == 2
    assert len(page.having(class_="step")) == len(data["steps"]) == plan.launches[0]["section_steps"] + 1 == len(plan.launches[0]["steps"]) + 1
    first = [s for s in data["steps"] if s["layer"] == "net/first"]
    assert {s["phase"] for s in first} == {"forward", "update"} and all(s["times"] == 3 * len([o for o in first if (o["op"], o["line"]) == (s["op"], s["line"])]) and s["us"] > 0 for s in first)
    assert first[0]["op"] == "dense(matmul, add, relu)" and "[4,5]x[5,8]" in first[0]["shapes"] and "test_pictures.py" in first[0]["line"]
    assert {"search", "in", "out", "fit", "view", "numbers"} <= {a.get("id") for _, a in page.elements}
    assert all(s["us"] is None for s in json.loads(re.search(r'id="data">(.*?)</script>', plan.html())[1])["steps"])
    shown = Page(plan._repr_html_())
    assert [tag for tag, _ in shown.elements] == ["iframe"] and shown.elements[0][1]["srcdoc"] == plan.html()
    for path in ("x.svg", "x"):
        with pytest.raises(lm.errors.InvalidArgument, match="html"):
            plan.save(tmp_path / path)


def test_streams_have_lanes_and_waits_are_drawn():
    def branches(x, a, b):
        return lm.tanh(x @ a) @ a + lm.tanh(x @ b) @ b

    big = lm.ones([512, 512])
    plan = lm.function(branches).explain(big, big * 2, big * 3, device="null:h100")
    page = Page(plan.html())
    assert len(page.having(class_="lane")) == 2 and len(page.having(class_="wait")) == sum(len(launch["wait"]) for launch in plan.launches) > 0
    assert all(launch["steps"] == [] for launch in plan.launches)


# The few parts of a document that the page's script uses.
DOCUMENT = """
const parts = JSON.parse(require("fs").readFileSync(process.argv[2], "utf8"));
class Element {
  constructor(tag, data = {}) { Object.assign(this, {tag, dataset: data, children: [], text: "", listeners: {}, attributes: {}, clientWidth: 600, viewBox: {baseVal: {width: 2000, height: 300}}});
    const names = new Set(); this.names = names; this.classList = {toggle: (n, on) => on ? names.add(n) : names.delete(n)}; }
  get textContent() { return this.text + this.children.map(c => c.textContent).join(" "); }
  set textContent(t) { this.text = t; this.children = []; }
  append(e) { this.children.push(e); }
  addEventListener(kind, f) { this.listeners[kind] = f; }
  setAttribute(n, v) { this.attributes[n] = v; }
  querySelectorAll(s) { return s === ".step" ? steps : launches; }
}
const steps = parts.steps.map(i => new Element("g", {step: i})), launches = parts.launches.map(i => new Element("g", {launch: i})), svg = new Element("svg"), byId = {};
globalThis.document = {getElementById: id => byId[id] ??= new Element(id), querySelector: () => svg, createElement: tag => new Element(tag)};
document.getElementById("data").textContent = parts.data;
eval(parts.script);
const out = {};
byId.search.value = "FIRST"; byId.search.oninput();
out.found = byId.found.textContent; out.dim = steps.filter(s => s.names.has("dim")).length;
byId.search.value = ""; byId.search.oninput(); out.undimmed = steps.filter(s => s.names.has("dim")).length;
steps[0].listeners.click(); out.layer = byId.numbers.textContent; out.chosen = steps.filter(s => s.names.has("chosen")).length;
launches[1].listeners.click(); out.launch = byId.numbers.textContent;
const before = svg.attributes.width; byId.in.onclick(); out.larger = svg.attributes.width / before; byId.fit.onclick(); out.fit = svg.attributes.width;
console.log(JSON.stringify(out));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed; it runs the page's script")
def test_search_zoom_and_clicks_of_the_page_work(tmp_path):
    plan, record = explained()
    page = Page(plan.html(record))
    scripts = [text for where, text in page.texts if where == "script"]
    parts = {"steps": [a["data-step"] for a in page.having(class_="step")], "launches": [a["data-launch"] for a in page.having(class_="launch")], "data": scripts[0], "script": scripts[1]}
    (tmp_path / "parts.json").write_text(json.dumps(parts))
    (tmp_path / "run.js").write_text(DOCUMENT)
    done = subprocess.run(["node", str(tmp_path / "run.js"), str(tmp_path / "parts.json")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    steps = json.loads(scripts[0])["steps"]
    first = [s for s in steps if s["layer"] == "net/first"]
    assert said["found"] == f"{len(first)} of {len(steps)} steps" and said["dim"] == len(steps) - len(first) and said["undimmed"] == 0
    assert said["layer"].startswith("layer net/first") and f"{len(first)} steps in 1 launch," in said["layer"] and "[4,5]x[5,8]" in said["layer"] and said["chosen"] == len(first)
    assert said["launch"].startswith("launch 1: sort") and said["larger"] == pytest.approx(1.3) and said["fit"] == pytest.approx(596)


@pytest.mark.parametrize("value", [lm.ones([2, 3]), lm.ones([]), lm.zeros([0, 3]), lm.ones([2, 2, 2]), lm.arange(100), lm.ones([40, 40], dtype=lm.bfloat16), lm.constant([True, False]),
                                   lm.Variable([1.0], name=NASTY), lm.constant([float("nan"), float("inf")])], ids=lambda x: f"{x.dtype}{tuple(x.shape)}")
def test_tensors_and_variables_are_shown_in_notebooks(value):
    text = value._repr_html_()
    page = Page(text)
    assert str(tuple(value.shape)) in text and len(text) < 8000 and "script" not in [tag for tag, _ in page.elements]
    cells = [t for where, t in page.texts if where == "td"]
    if len(value.shape) in (1, 2) and 0 not in value.shape:
        rows = value.shape[0] if len(value.shape) == 2 else 1
        assert len(cells) == (min(rows, 13) if rows > 12 else rows) * min(value.shape[-1], 13)


def test_a_tensor_of_a_trace_and_models_are_shown():
    seen = []

    @lm.function
    def f(x):
        seen.append(x._repr_html_())
        return x

    f(lm.ones([2]))
    assert "a value of a graph" in seen[0]
    net = Net(NASTY.replace("/", "|"))
    assert "do not exist" in net._repr_html_()
    net(lm.ones([2, 8]))
    page = Page(net._repr_html_())
    assert [tag for tag, _ in page.elements].count("tr") == 1 + 7 and "587 parameters" in net._repr_html_()
    drawing(net.plot())


def test_ops_of_a_functional_model_are_drawn_as_ops_and_its_batch_is_n():
    a, b = lm.nn.Input((4,)), lm.nn.Input((4,))
    root = drawing(lm.nn.Model([a, b], lm.nn.Dense(16, name="wide")(a) + lm.relu(b[:, :1])).plot())
    layers, ops = boxes(root, "layer"), boxes(root, "op")
    assert set(layers) == {"wide"} and len(ops) == 3 and all(lines[1] in ("n × 1", "n × 16") and len(lines) == 2 for lines, _ in ops.values())
    assert boxes(root, "input")["input 0"][0] == ["input 0", "n × 4"]


@pytest.mark.parametrize("low, high", [(0, 1), (0, 39), (0.1, 0.99), (1e-4, 1e-3), (1.3e-4, 1e-3), (-3, 5e6), (0.45, 0.455), (7, 7.7), (-1e-30, 1e-30)])
def test_axes_have_four_to_nine_round_numbers(low, high):
    from lamina._drawing import _ticks

    ticks = _ticks(low, high)
    assert 4 <= len(ticks) <= 9 and all(low - 1e-9 * (high - low) <= tick <= high + 1e-9 * (high - low) for tick in ticks) and len({f"{tick:.4g}" for tick in ticks}) == len(ticks)


def test_many_curves_stand_in_rows():
    history = lm.nn.History()
    history.epoch, history.history = [0, 1], {f"m{i}": [0.0, 1.0] for i in range(7)}
    root = drawing(history.plot())
    _, _, width, height = map(float, root.get("viewBox").split())
    assert width < 1300 and height > 600
    assert all(0 <= float(t.get("x")) <= width and 0 <= float(t.get("y")) <= height for t in root.iter(SVG + "text")) and [t.text for t in root.iter(SVG + "text")].count("epoch") == 7

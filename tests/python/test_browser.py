"""The page of an Explanation and the drawings in chromium without a window. Run by ./dev test --long, which installs Debian's chromium where there is none; keeps screenshots in
build/pictures."""
import os
import pathlib

import pytest

import lamina as lm
from built import BUILD

pytestmark = pytest.mark.skipif(not os.environ.get("LAMINA_TEST_LONG"), reason="may install chromium: run with ./dev test --long")
PICTURES = pathlib.Path(BUILD) / "pictures"


@pytest.fixture(scope="module")
def chromium():
    from chromium import installed_chromium

    PICTURES.mkdir(exist_ok=True)
    return installed_chromium()


def opened(program, path, **size):
    from chromium import Page

    return Page(program, pathlib.Path(path).resolve().as_uri(), **size)


def training_step():
    net = lm.nn.Sequential([lm.nn.Dense(16, activation="relu", name="first"), lm.nn.Dense(16, activation="tanh", name="second"), lm.nn.Dense(3, name="head")], name="net")
    adam = lm.optim.Adam(0.01)

    @lm.function
    def step(x, y):
        with lm.GradientTape() as tape:
            cost = lm.mean(lm.square(net(x) - y))
        adam.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost, lm.sort(net(x), axis=1)

    return net, step


def test_the_page_of_an_explanation_works_in_a_browser(chromium, tmp_path):
    net, step = training_step()
    x, y = lm.ones([8, 5]), lm.ones([8, 3])
    step(x, y)
    with lm.profiler.record() as record:
        step(x, y)
    plan = step.explain(x, y)
    plan.save(tmp_path / "x.html", record)
    with opened(chromium, tmp_path / "x.html") as page:
        assert page.value("document.title") == "step"
        assert page.value("document.querySelectorAll('.lane').length") == 1
        assert page.value("document.querySelectorAll('.launch').length") == len(plan.launches) >= 2
        steps = page.value("document.querySelectorAll('.step').length")
        assert steps >= plan.launches[0]["section_steps"] > 6
        visible = page.value("[...document.querySelectorAll('.step rect, .launch rect, .lane rect')].every(r => { const b = r.getBoundingClientRect(); return b.width > 5 && b.height > 5; })")
        assert visible
        page.click("#search")
        page.write("second")
        found = page.value("document.getElementById('found').textContent")
        dim = page.value("document.querySelectorAll('.step.dim').length")
        assert 0 < dim < steps and found == f"{steps - dim} of {steps} steps"
        page.click(".step:not(.dim)")
        numbers = page.value("document.getElementById('numbers').textContent")
        assert numbers.startswith("layer net/second") and "test_browser.py" in numbers and " us" in numbers
        chosen = page.value("document.querySelectorAll('.step.chosen').length")
        assert chosen == page.value("document.querySelectorAll('#numbers tr').length") - 1 >= 3
        page.screenshot(PICTURES / "explain.png")
        width = page.value("document.querySelector('#view svg').getBoundingClientRect().width")
        page.click("#in")
        assert page.value("document.querySelector('#view svg').getBoundingClientRect().width") == pytest.approx(1.3 * width, rel=0.01)
        page.click("#fit")
        page.value("document.querySelector('#view').scrollTo(0, 0)")
        frame = page.value("(() => { const r = document.querySelectorAll('.launch rect')[1].getBoundingClientRect(); return [r.x + 12, r.y + 6]; })()")
        page.click_at(*frame)
        assert page.value("document.getElementById('numbers').textContent").startswith("launch 1: ")
        assert page.complaints == [] and page.requests == [(tmp_path / "x.html").as_uri()]


def test_streams_have_lanes_side_by_side_in_a_browser(chromium, tmp_path):
    def branches(x, a, b):
        return lm.tanh(x @ a) @ a + lm.tanh(x @ b) @ b

    big = lm.ones([512, 512])
    lm.function(branches).explain(big, big * 2, big * 3, device="null:h100").save(tmp_path / "x.html")
    with opened(chromium, tmp_path / "x.html") as page:
        tops = page.value("[...document.querySelectorAll('.lane rect')].map(r => [r.getBoundingClientRect().top, r.getBoundingClientRect().bottom])")
        assert len(tops) == 2 and tops[0][1] <= tops[1][0] and page.value("document.querySelectorAll('.wait').length") > 0
        page.screenshot(PICTURES / "streams.png")
        assert page.complaints == []


def test_drawings_are_shown_and_no_text_is_wider_than_its_box(chromium, tmp_path):
    net, _ = training_step()
    net.compile("adam", "mse", metrics=["mae"])
    x, y = lm.ones([64, 5]), lm.ones([64, 3])
    history = net.fit(x, y, epochs=6, validation_data=(x, y), verbose=0)
    net.plot(tmp_path / "net.svg")
    history.plot(tmp_path / "curves.svg")
    for name in ("net", "curves"):
        with opened(chromium, tmp_path / f"{name}.svg") as page:
            page.screenshot(PICTURES / f"{name}.png")
            assert page.complaints == [] and page.requests == [(tmp_path / f"{name}.svg").as_uri()]
            wider = page.value("[...document.querySelectorAll('g')].filter(g => g.querySelector(':scope > rect') && [...g.querySelectorAll(':scope > text')].some(t => "
                               "t.getBBox().width > g.querySelector(':scope > rect').getBBox().width)).map(g => g.textContent)")
            assert wider == []
    (tmp_path / "shown.html").write_text("<!doctype html><meta charset='utf-8'>" + "<hr>".join(one._repr_html_() for one in (lm.random.normal([20, 30]), lm.constant([1, 2, 3]), net.layers[0].kernel, net)),
                                         encoding="utf-8")
    with opened(chromium, tmp_path / "shown.html") as page:
        page.screenshot(PICTURES / "shown.png", whole=True)
        assert page.complaints == [] and page.value("document.querySelectorAll('table').length") == 4

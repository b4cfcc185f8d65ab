"""The page in a headless Chromium: its width, dark mode, hover, scales, smoothing, and the choice of curves."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.browser import PHONE, WIDE, headless_chromium, needs_chromium, set_width
from fakes.reports import gray, write_training

from tensorpack_lite.report.page import write_report
from tensorpack_lite.report.samples import FIRST_BATCH, write_samples

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

LONG = "a_very_long_name_without_any_space_" * 6

pytestmark = [
    pytest.mark.slow,
    pytest.mark.any_tensorflow,
    needs_chromium,
]


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium that records errors of the page."""
    yield from headless_chromium(webdriver)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of two training runs; the first has an image, samples, notes and long names."""
    directory = tmp_path_factory.mktemp("report")
    scalars = {"cost": [100.0, 2.0, 1.0, 0.5], "val_cost": [4.0, 2.0, 1.5, 1.0], LONG: [1.0, -1.0]}
    notes = [{"kind": "lint", "text": LONG * 3, "place": LONG}]
    one = write_training(directory / "one", scalars, notes=notes, images=[(LONG, 10, gray(9, size=500))], log=LONG * 9)
    samples = {"image": np.zeros([16, 8, 8]), "label": np.array([LONG] * 16)}
    write_samples(one, FIRST_BATCH, samples, 1)
    write_samples(one, "words", {"word": np.array([LONG]), "other": np.array([LONG])}, 1)
    other = write_training(directory / "other", {"cost": [90.0, 3.0, 2.0, 1.0]})
    write_report([one, other], str(directory / "report.html"))
    return directory / "report.html"


def show(browser, path, width=WIDE, scheme="light", scripts=True):
    """Load the page as on a screen of this width."""
    set_width(browser, width)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    browser.get_log("browser")
    browser.get(path.as_uri())


@pytest.fixture
def run(browser, report):
    """A function that runs JavaScript in the page; at the end, the page must have had no error."""
    show(browser, report)
    yield browser.execute_script
    assert [] == [entry["message"] for entry in browser.get_log("browser")]


POINT_AT = """
    const svg = document.getElementById("chart0"), box = svg.getBoundingClientRect();
    const x = box.left + box.width * arguments[0], y = box.top + box.height / 2;
    svg.dispatchEvent(new PointerEvent("pointermove", {clientX: x, clientY: y, bubbles: true}));
    const tip = document.getElementById("tip");
    return tip.hidden ? null : [...tip.children].map(line => line.innerText.trim().replace(/\\s+/g, " "));
"""
YS = """return document.querySelectorAll("#chart0 .curves > g")[arguments[0]].querySelector("path").getAttribute("d")
    .split(/[ML]/).slice(1).map(point => Number(point.split(" ")[1]));"""


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits(browser, report, width, scheme):
    """The page does not scroll sideways, and is dark where the system is."""
    show(browser, report, width, scheme)
    assert width == browser.execute_script("return document.documentElement.scrollWidth")
    color = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    channels = [int(word) for word in color[len("rgb(") : -1].split(",")]
    assert (max(channels) < 60) == (scheme == "dark")
    assert [] == browser.get_log("browser")


def test_phone(browser, report):
    """On a phone, three small samples fit into a row, and all links of the navigation are visible."""
    show(browser, report, PHONE)
    tops = browser.execute_script(
        "return [...document.querySelectorAll('#samples img.small')].map(image => image.getBoundingClientRect().top)"
    )
    assert tops[0] == tops[2] < tops[3]
    assert browser.execute_script(
        "const nav = document.querySelector('nav'); return nav.scrollWidth <= nav.clientWidth"
    )


def test_without_scripts(browser, report):
    """Without scripts, curves, tables and settings are there, and controls are not."""
    show(browser, report, scripts=False)
    source = browser.find_element("id", "chart0").get_attribute("outerHTML")
    assert source.count("<path") >= 3
    assert not browser.find_element("id", "controls").is_displayed()
    assert "train.py finished" in browser.find_element("tag name", "main").text
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_hover(run):
    """The tip has the step, the epoch and the values of all curves at the pointer; it disappears with the pointer."""
    lines = run(POINT_AT, 0.99)
    assert ["Step 40, epoch 4", "one: cost 0.5", "one: val_cost 1", "other: cost 1"] == lines
    assert "Step 20, epoch 2" == run(POINT_AT, 0.5)[0]
    places = run("return [...document.querySelectorAll('.cursor.on')].map(line => Number(line.getAttribute('x1')))")
    assert 1 < len(places)
    assert 1 == len(set(places))
    run("document.getElementById('chart0').dispatchEvent(new PointerEvent('pointerleave'))")
    assert run("return document.getElementById('tip').hidden")


def test_log_scale(run):
    """A logarithmic scale has equal distances for equal ratios; the button shows which scale is on."""
    pressed = "return document.querySelector('[data-log=\"0\"]').getAttribute('aria-pressed')"
    assert "true" == run(pressed)  # 100 is far above the median
    ys = run(YS, 0)
    np.testing.assert_allclose(ys[1] - ys[2], ys[2] - ys[3], atol=0.2)  # 2, 1, 0.5
    run("document.querySelector('[data-log=\"0\"]').click()")
    assert "false" == run(pressed)
    ys = run(YS, 0)
    np.testing.assert_allclose((ys[0] - ys[1]) / (ys[1] - ys[2]), 98, rtol=0.2)  # 100, 2, 1
    assert not run("return document.querySelector('#chart0 .axis.linear').hasAttribute('hidden')")
    assert run("return document.querySelector('#chart0 .axis.log').hasAttribute('hidden')")
    run("document.querySelector('[data-scale=log]').click()")
    assert "true" == run(pressed)


def test_smoothing(run):
    """Smoothing replaces each value by the weighted mean of those so far, and keeps the raw curve in the background."""
    run("document.querySelector('[data-scale=linear]').click()")
    before = run(YS, 1)
    run("const s = document.getElementById('smoothing'); s.value = 0.5; s.dispatchEvent(new Event('input'))")
    after = run(YS, 1)
    assert before[0] == after[0]
    np.testing.assert_allclose(after[1], (before[0] * 1 + before[1] * 2) / 3, atol=0.11)
    np.testing.assert_allclose(after[2], (before[0] * 1 + before[1] * 2 + before[2] * 4) / 7, atol=0.11)
    assert before[-1] == run(
        "return Number(document.querySelectorAll('#chart0 .raw')[1].getAttribute('d').split(' ').pop())"
    )
    assert "0.50" == run("return document.querySelector('#controls output').textContent")


def test_choose(run):
    """A click on the legend hides a curve, one on a training hides all its curves, and the filter hides plots."""
    hidden = "return [...document.querySelectorAll('#chart0 .curves > g')].map(group => group.hasAttribute('hidden'))"
    run("document.querySelector('[data-curve=\"0/1\"]').click()")
    assert [False, True, False] == run(hidden)
    run("document.querySelector('[data-run=\"0\"]').click()")
    assert [True, True, False] == run(hidden)
    assert ["Step 40, epoch 4", "other: cost 1"] == run(POINT_AT, 0.99)
    run("document.querySelector('[data-run=\"0\"]').click()")
    assert [False, True, False] == run(hidden)
    run("const f = document.getElementById('filter'); f.value = 'VAL_'; f.dispatchEvent(new Event('input'))")
    assert [False, True] == run("return [...document.querySelectorAll('.card')].map(card => card.hidden)")


def test_bands(browser, tmp_path):
    """The script draws the mean, the band and the single curves of a group where the page without scripts has them."""
    costs = [[4.0, 2.0, 1.0], [2.0, 4.0, 3.0], [3.0, 3.0, 0.1]]
    runs = [write_training(tmp_path / str(k), {"cost": cost}) for k, cost in enumerate(costs)]
    write_report(runs, str(tmp_path / "report.html"))
    show(browser, tmp_path / "report.html")
    paths = """return [...document.querySelectorAll('#chart0 .curves path')].map(
        path => path.getAttribute('d').split(/[MLz ]/).filter(word => word).map(Number))"""
    before = browser.execute_script(paths)
    assert [6, 12, 6, 6, 6] == [len(numbers) for numbers in before]
    for scale in ("log", "linear"):
        browser.execute_script(f"document.querySelector('[data-scale={scale}]').click()")
    for old, new in zip(before, browser.execute_script(paths)):
        np.testing.assert_allclose(old, new, atol=0.11)
    assert "3 runs 3 \u00b1 1" in browser.execute_script(POINT_AT, 0.0)
    assert [] == browser.get_log("browser")


def test_the_policy_blocks_other_scripts(run, browser):
    """A script that is not the library's does not run, whatever puts it into the page."""
    run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.evil = 1'}))")
    assert run("return window.evil === undefined")
    blocked = [entry["message"] for entry in browser.get_log("browser")]
    assert len(blocked) == 1
    assert "Content Security Policy" in blocked[0]

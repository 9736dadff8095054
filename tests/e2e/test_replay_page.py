"""The page and the pictures of a replay, in a real browser: what stands there is what the JSON report says, nothing is fetched, nothing runs,
and it can be read on a phone, in the dark and on paper."""

import json
import pathlib
import random
import re
import struct
import time
import xml.etree.ElementTree

import pytest

from browser import Browser
from program import run

PHONE = (360, 740)
DESK = (1280, 900)

# Whoever sends it hopes that it ends up in a page. One is turned around by a sign that nobody sees.
HOSTILE = ["</script><script>alert(1)</script>", "<img src=//evil.example/x onerror=alert(2)>", "\u202eabc<svg onload=alert(3)>",
           "'\\\"&quot;&amp;" + "k" * 1000, "{{7*7}}${7*7}"]

POLICY = """\
log:
  identities: plain
limits:
  - name: per-client
    per: [client_ip]
    rate: 20/minute
    burst: 10
  - name: per-agent
    per: [header.user-agent]
    rate: 6/minute fixed_window
"""


def write_log(file, seconds=400, seed=7):
    """Combined lines of some hundred clients; two of them are a crowd by themselves, and one in five says that it is hostile."""
    dice = random.Random(seed)
    with open(file, "w", encoding="utf-8") as log:
        for second in range(seconds):
            stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(1764547200 + second))
            for _ in range(dice.randrange(12)):
                client = f"203.0.113.{dice.choice([7, 8, *range(20, 220)]) if dice.random() < 0.7 else 7}"
                agent = dice.choice(HOSTILE) if dice.random() < 0.2 else f"Mozilla/5.{dice.randrange(90)}"
                agent = agent.replace('"', '\\x22').replace("\\\\x22", "\\x22")
                log.write(f'{client} - - [{stamp}] "GET /items/{dice.randrange(50)} HTTP/1.1" 200 512 "-" "{agent}"\n')


class Report:
    """What one run of the program wrote, side by side."""

    def __init__(self, folder, *arguments):
        self.page, self.svg, self.png = folder / "report.html", folder / "svg", folder / "png"
        file = folder / "report.json"
        self.svg.mkdir()
        self.png.mkdir()
        status, _, err = run(*arguments, "--html", self.page, "--json", file, "--svg", self.svg, "--png", self.png)
        assert status == 0, err
        self.json = json.loads(file.read_text())
        self.url = self.page.as_uri()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """One policy, two of them, made-up traffic, and a log of one request."""
    folder = tmp_path_factory.mktemp("reports")
    policy, stricter, log, short = (folder / name for name in ("policy.yaml", "stricter.yaml", "access.log", "one.log"))
    policy.write_text(POLICY)
    stricter.write_text(POLICY.replace("20/minute", "5/minute"))
    write_log(log)
    short.write_text(log.read_text().split("\n")[0] + "\n")
    runs = {
        "one": ("replay", policy, log),
        "two": ("replay", policy, log, "--compare", stricter),
        "simulated": ("simulate", policy, "--pattern", "flash-crowd", "--clients", "50",
                      "--header", "User-Agent: Mozilla/5.{client}"),
        "short": ("replay", policy, short),
    }
    made = {}
    for name, arguments in runs.items():
        (folder / name).mkdir()
        made[name] = Report(folder / name, *arguments)
    return made


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture(params=["one", "two", "simulated", "short"])
def report(request, reports):
    return reports[request.param]


def look_up(tree, path):
    for step in path.split("."):
        tree = tree[int(step)] if isinstance(tree, list) else tree[step]
    return tree


def is_same(number, shown):
    if number is None:
        return shown == "none"
    return float(shown.replace(",", "")) == number if isinstance(number, float) else int(shown.replace(",", "")) == number


# ---- what it says ----

def test_every_number_on_the_page_is_the_jsons(browser, report):
    browser.open(report.url)
    assert json.loads(browser.evaluate("document.getElementById('report').textContent")) == report.json
    shown = browser.evaluate("[...document.querySelectorAll('[data-path]')].map(e => "
                             "[e.dataset.path, e.dataset.value ?? e.textContent])")
    wrong = [(path, text) for path, text in shown if not is_same(look_up(report.json, path), text)]
    assert wrong == []
    paths = {path for path, _ in shown}
    assert {"requests", "admitted", "refused", "limits.0.refused", "limits.1.variants.fixed_window.most_in_a_period",
            "limits.0.burst.for_all", "offered_load.p99"} <= paths
    if "second" in report.json:
        assert {"second.limits.0.refused", "comparison.clients.0.refused_by_second"} <= paths


def test_there_are_refusals_to_look_at(reports):
    """Else the tests here would pass on pages of zeros."""
    assert reports["one"].json["refused"] > 100
    assert len(reports["one"].json["refused_keys"]) > 3
    assert any("<script>" in key["key"] for key in reports["one"].json["refused_keys"])
    assert reports["two"].json["comparison"]["second_only_refuses"] > 50
    assert reports["short"].json["requests"] == 1


# ---- what it does ----

def test_nothing_is_fetched_and_nothing_goes_wrong(browser, report):
    before = len(browser.events)
    browser.open(report.url)
    browser.evaluate("new Promise(done => requestAnimationFrame(done)) && 1")
    events = browser.events[before:]
    asked = [about["request"]["url"] for method, about in events if method == "Network.requestWillBeSent"]
    assert asked == [report.url]
    loud = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Page.javascriptDialogOpening")
    assert [event for event in events if event[0] in loud] == []


def test_names_stay_names(browser, reports):
    for name in ("one", "two"):
        browser.open(reports[name].url)
        assert browser.evaluate("[document.scripts.length, document.images.length, document.scripts[0].type]") == \
            [1, 0, "application/json"]
        assert browser.evaluate("document.querySelectorAll('[onload],[onerror],[style],[href],[src]').length") == 0
        said = browser.evaluate("document.body.innerText")
        assert "<script>alert(1)" in said
        assert "\u202e" not in said and "k" * 100 not in said


def test_the_policy_of_the_page_lets_no_script_in(browser, reports):
    browser.open(reports["one"].url)
    browser.evaluate("""
        const script = document.createElement("script");
        script.textContent = "window.slipped = 1";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", "<p id='p' style='color: red' onclick='slipped = 1'>p</p>");
        document.getElementById("p").click()""")
    assert browser.evaluate("window.slipped") is None
    assert browser.evaluate("getComputedStyle(document.getElementById('p')).color != 'rgb(255, 0, 0)'")


# ---- how it looks ----

SEEN = """[...document.querySelectorAll('body *')].filter(e => !e.closest('script') && e.checkVisibility())"""


def test_nothing_is_wider_than_a_phone(browser, report):
    browser.show_as(*PHONE)
    browser.open(report.url)
    assert browser.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [PHONE[0], PHONE[0]]
    outside = browser.evaluate(f"""{SEEN}.filter(e => !e.closest('.wide > *'))
        .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < -0.5)
        .map(e => e.outerHTML.slice(0, 200))""")
    assert outside == []
    small = browser.evaluate(f"""{SEEN}.filter(e => e.matches('p, td, th, dt, dd, summary, svg text'))
        .map(e => e.closest('svg') ? 11 * e.closest('svg').getBoundingClientRect().width / e.closest('svg').viewBox.baseVal.width
                                   : parseFloat(getComputedStyle(e).fontSize)).filter(size => size < 10.9)""")
    assert small == []


COLOURS = """
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const paper = e => {
        for (; e; e = e.parentElement) {
            const colour = numbers(getComputedStyle(e).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
        throw new Error("there is no background");
    };
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_lines_stand_out_in_light_and_dark(browser, report, scheme):
    for size in (PHONE, DESK):
        browser.show_as(*size, scheme)
        browser.open(report.url)
        result = browser.evaluate(f"""(() => {{ {COLOURS}
            const words = {SEEN}.filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()));
            const marks = {SEEN}.filter(e => e.matches('svg path') && !e.matches('.i2'));
            const colour = e => numbers(getComputedStyle(e).color);
            const weak = (list, least) => list.filter(e => contrast(colour(e), paper(e)) < least).map(e => e.outerHTML.slice(0, 200));
            return [words.length, marks.length, weak(words, 4.5), weak(marks, 3), paper(document.body)];
        }})()""")
        words, marks, weak_words, weak_marks, paper = result
        assert words > 60 and marks > 3
        assert weak_words == [] and weak_marks == []
        assert (max(paper) < 60) == (scheme == "dark") and (min(paper) > 200) == (scheme == "light")


def test_each_chart_is_seen_once_on_any_screen(browser, report):
    for size in (PHONE, DESK):
        browser.show_as(*size)
        browser.open(report.url)
        charts = browser.evaluate(f"""[...document.querySelectorAll('figure')].map(f => [f.id,
            [...f.querySelectorAll('svg')].filter(s => s.checkVisibility()).length,
            [...f.querySelectorAll('svg')].filter(s => s.checkVisibility()).flatMap(s => [...s.querySelectorAll('path')])
                .filter(p => p.getBBox().width + p.getBBox().height > 2).length])""")
        assert {"rate", "refusals", "clients"} <= {name for name, _, _ in charts}
        for name, seen, paths in charts:
            empty = name == "refusals" and report.json["refused"] == 0
            assert (seen, paths > 2) == ((0, False) if empty else (1, True)), name


def test_charts_have_marks_that_are_seen(browser, reports):
    """Not only that there are paths: without them the picture is another one."""
    browser.show_as(*DESK)
    browser.open(reports["two"].url)
    for name in ("rate", "refusals", "clients", "changes", "level-1", "peaks-1-per-client"):
        def picture():
            box = browser.evaluate(f"""(() => {{ const box = [...document.querySelectorAll('#{name} svg')]
                .find(s => s.checkVisibility()).getBoundingClientRect();
                return {{x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height, scale: 1}} }})()""")
            return browser.screenshot(clip=box)

        drawn = picture()
        assert picture() == drawn
        ink = {"refusals": "i5", "changes": "i6"}.get(name, "i4")
        paths = browser.evaluate(f"[...document.querySelectorAll('#{name} path.{ink}')].map(p => p.remove()).length")
        assert paths > 0 and picture() != drawn, name


def test_paper_is_white_and_shows_whole_tables(browser, reports):
    browser.show_as(*DESK, "dark", media="print")
    browser.open(reports["two"].url)
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate("[...document.querySelectorAll('.wide')].every(e => getComputedStyle(e).overflowX == 'visible')")
    browser.show_as(*DESK)


# ---- files ----

def charts_in(report):
    return sorted({chart for chart in re.findall(r'<figure id="([^"]+)"', report.page.read_text())})


def test_the_same_charts_are_written_as_files(report):
    assert sorted(file.stem for file in report.svg.iterdir()) == charts_in(report)
    assert sorted(file.stem for file in report.png.iterdir()) == charts_in(report)


def test_svg_files_are_well_formed(report):
    for file in report.svg.iterdir():
        root = xml.etree.ElementTree.fromstring(file.read_bytes())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert not any(element.tag.endswith("script") for element in root.iter())


def test_svgs_of_the_page_are_well_formed(report):
    elements = re.findall(r"<svg .*?</svg>", report.page.read_text(), re.DOTALL)
    assert len(elements) >= 3
    for element in elements:
        assert len(xml.etree.ElementTree.fromstring(element)) > 3


def test_png_files_have_two_dots_to_a_pixel(report):
    for file in report.png.iterdir():
        head = file.read_bytes()[:24]
        assert head.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", head[16:24])
        assert width == 1600 and height > 60


def test_a_browser_shows_svg_files(browser, reports):
    for file in pathlib.Path(reports["one"].svg).iterdir():
        browser.open(file.as_uri())
        assert browser.evaluate("document.documentElement.tagName") == "svg"
        assert browser.evaluate("document.querySelector('parsererror')") is None

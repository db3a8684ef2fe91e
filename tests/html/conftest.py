"""A headless Chromium with no network, and pages to open in it."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from regard.html.build import write_page
from regard.html.page_data import LayerMaps, PageData, Segment, TokenSequence

LEFT, TOP = 84, 66  # the margins of the map, in CSS pixels
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--force-device-scale-factor=1", "--window-size=1280,1000",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9", "--disable-dev-shm-usage",
)  # fmt: skip


def made_softmax(heads: int, queries: int, keys: int, *, causal: bool, seed: int = 0) -> np.ndarray:
    """(H, T, S) weights of random scores; row i of a causal map stands at key S - T + i."""
    scores = np.random.default_rng(seed).normal(0, 1.5, (heads, queries, keys))
    if causal:
        scores = np.where(np.tril(np.ones((queries, keys), bool), keys - queries), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def text_layer(layer: int, heads: int, count: int, **more) -> LayerMaps:
    weights = made_softmax(heads, count, count, causal=True, seed=layer)
    return LayerMaps(
        layer=layer, path=f"layers.{layer}", heads=list(range(heads)), weights=weights,
        allowed=np.tril(np.ones((count, count), bool)),
        scores={"entropy": -(weights * np.log(np.maximum(weights, 1e-30))).sum(-1).mean(-1), "self": np.trace(weights, 0, 1, 2) / count},
        trust={"sink share": weights[:, 1:, 0].mean(-1)}, facts={"kernel": "plain"},
        series={"entropy": -(weights * np.log(np.maximum(weights, 1e-30))).sum(-1)}, **more,
    )  # fmt: skip


@pytest.fixture(scope="session")
def softmax_heads():
    """The function that makes (H, T, S) weights."""
    return made_softmax


@pytest.fixture(scope="session")
def nasty_labels() -> list[str]:
    """40 labels that a careless page would run, swallow or turn around; "the" stands at 3, 9, 21 and 33."""
    labels = [f"w{i}" for i in range(40)]
    odd = [
        "</script><script>window.hacked=1</script>",
        "<img src=x onerror=window.hacked=1>",
        "שלום",
        "مرحبا",
        "\u202eevil",
        "注₁",
        "{{data}}",
    ]
    odd += ["\n", "'\"`&amp;", "$x$", "\ud800", "👩‍👩‍👧"]
    for place, text in zip((0, 1, 2, 4, 5, 6, 7, 8, 10, 11, 12, 13), odd):
        labels[place] = text
    for place in (3, 9, 21, 33):
        labels[place] = "the"
    return labels


@pytest.fixture(scope="session")
def text_page(nasty_labels) -> PageData:
    """Three layers of four heads over 40 hostile tokens in two segments, with exact numbers."""
    texts = TokenSequence("text", nasty_labels, [Segment("<b>first</b>", 0, 16), Segment("second", 16, 40)])
    return PageData(
        "A & B </title><script>window.hacked=1</script>",
        [texts],
        [text_layer(n, 4, 40) for n in range(3)],
        ["a note"],
        ["x: y"],
    )


class Page:
    """A page in a browser: its parts, its state, and what it wrote to the console."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, data: PageData, folder: Path, **how) -> "Page":
        from selenium.webdriver.support.ui import WebDriverWait

        self.path = write_page(data, folder / "page.html", **{"language": "en", **how})
        self.driver.get(self.path.as_uri())
        WebDriverWait(self.driver, 20).until(
            lambda d: self.run("return document.documentElement.dataset.ready") == "yes"
        )
        self.settle()
        return self

    def run(self, script: str, *args):
        return self.driver.execute_script(script, *args)

    def find(self, selector: str):
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def click(self, selector: str) -> None:
        element = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        self.settle()

    def choose(self, menu: str, value: str) -> None:
        self.click(f'#{menu} option[value="{value}"]')

    def settle(self) -> None:
        """Wait for decoding and for two frames."""
        self.driver.execute_async_script(
            "const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => done())), 60)"
        )

    def point(
        self, selector: str, x: float, y: float, *, click: bool = False, wheel: int = 0, drag=None, shift: bool = False
    ) -> None:
        """Move the mouse to a place of an element, in CSS pixels from its top left corner; then click, turn the wheel or drag."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

        element = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        wide, high = element.size["width"], element.size["height"]
        actions = ActionChains(self.driver, duration=10)
        dx, dy = round(x - wide / 2), round(y - high / 2)
        actions.move_to_element_with_offset(element, dx, dy)
        if shift:
            actions.key_down("\ue008")
        if click:
            actions.click()
        if drag:
            actions.click_and_hold().move_by_offset(drag[0] // 2, drag[1] // 2).move_by_offset(
                drag[0] - drag[0] // 2, drag[1] - drag[1] // 2
            )
            actions.release()
        if wheel:
            actions.scroll_from_origin(ScrollOrigin.from_element(element, dx, dy), 0, wheel)
        if shift:
            actions.key_up("\ue008")
        actions.perform()
        self.settle()

    def plot_side(self, canvas: str = "#map-a") -> float:
        """The side of the drawn map, in CSS pixels."""
        return self.find(canvas).size["width"] - LEFT - 4

    def point_at_cell(self, query: int, key: int, view: tuple, canvas: str = "#map-a", **more) -> None:
        """Point at the middle of a cell; view = (q0, q1, k0, k1) is what the map shows."""
        side = self.plot_side(canvas)
        q0, q1, k0, k1 = view
        self.point(
            canvas, LEFT + (key + 0.5 - k0) / (k1 - k0) * side, TOP + (query + 0.5 - q0) / (q1 - q0) * side, **more
        )

    def keys(self, selector: str, *names: str) -> None:
        self.run("document.querySelector(arguments[0]).focus()", selector)
        for name in names:
            self.find(selector).send_keys(name)
        self.settle()

    def readout(self) -> dict:
        """The data of the cell under the cursor: query, key, weight, error, shown, as numbers."""
        data = json.loads(self.run("return JSON.stringify(document.getElementById('readout').dataset)"))
        return {name: float(value) for name, value in data.items()}

    def picture(self, canvas: str) -> str:
        return self.run("return document.querySelector(arguments[0]).toDataURL()", canvas)

    def snapshot(self) -> dict[str, str]:
        """What each part shows now, to see which of them an action changes."""
        parts = {
            "overview": self.picture("#overview"),
            "map": self.picture("#map-a"),
            "bar": self.picture("#colour-bar"),
        }
        for name in ("trust", "bars", "segments", "map-title", "format"):
            parts[name] = self.run("return document.getElementById(arguments[0]).innerHTML", name)
        for name in ("query-strip", "key-strip"):
            looks = "[...document.getElementById(arguments[0]).children].map(t => [t.textContent, t.className, t.style.background])"
            parts[name] = self.run(f"return JSON.stringify({looks})", name)
        return parts

    def errors(self) -> list[str]:
        return [line["message"] for line in self.driver.get_log("browser")]


@pytest.fixture(scope="session")
def driver():
    webdriver = pytest.importorskip("selenium.webdriver", reason="browser tests need selenium")
    import shutil

    chromium, server = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not server:
        pytest.skip("browser tests need chromium and chromedriver (Debian: chromium, chromium-driver)")
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        for flag in (*FLAGS, f"--user-data-dir={profile}/profile"):
            options.add_argument(flag)
        downloads = Path(profile) / "downloads"
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.binary_location = chromium
        made = webdriver.Chrome(options=options, service=webdriver.ChromeService(server))
        made.downloads = downloads
        yield made
        made.quit()


@pytest.fixture
def page(driver, tmp_path) -> Page:
    driver.get_log("browser")
    return Page(driver)

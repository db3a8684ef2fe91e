"""Make the screenshots of the explorer in docs/pictures, in both languages and both colour schemes, with Chromium and no network.

Run from the root of the repository: python docs/make_screenshots.py [name ...]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

sys.path.insert(0, str(Path(__file__).parent))
from make_pictures import CHINESE, HERE, causal, made_heads

from regard.html.build import write_page
from regard.html.page_data import LayerMaps, PageData, Segment, TokenSequence

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip


def browser(width: int, height: int, profile: str) -> webdriver.Chrome:
    """A headless Chromium of its own, with no network and no log service."""
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--window-size={width},{height}", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.binary_location = "/usr/bin/chromium"
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


def small_page() -> PageData:
    """Four layers of six heads over a short Chinese sentence, exact numbers."""
    count = len(CHINESE)
    texts = TokenSequence("句子 sentence", CHINESE, [Segment("前半句", 0, 11), Segment("后半句", 11, count)])
    return PageData("我们看见注意力 — four layers, six heads", [texts], [made_layer(n, count, 6) for n in range(4)], ["made weights"])


def long_page() -> PageData:
    """Six layers of eight heads over 384 English tokens."""
    words = "the cat sat on the mat because it was tired of walking in the rain and then it slept".split()
    texts = TokenSequence("text", [words[i % len(words)] for i in range(384)])
    return PageData("Six layers, eight heads, 384 tokens", [texts], [made_layer(n, 384, 8) for n in range(6)])


def made_layer(layer: int, count: int, heads: int) -> LayerMaps:
    allowed = causal(count)
    weights = made_heads(count, heads, allowed, layer).astype(np.float32)
    entropy = -(weights * np.log(np.maximum(weights, 1e-30))).sum(-1)
    correlation = np.random.default_rng(layer).uniform(-0.2, 0.9, heads)
    return LayerMaps(
        layer=layer, path=f"model.layers.{layer}.attention", heads=range(heads), weights=weights, allowed=allowed,
        scores={"entropy": entropy.mean(-1), "previous token": np.trace(weights, -1, 1, 2) / count},
        trust={"sink share": weights[:, 1:, 0].mean(-1), "rank correlation with masking": correlation},
        series={"entropy": entropy}, facts={"kernel": "sdpa flash", "dtype": "float32"},
    )  # fmt: skip


def shots() -> dict[str, tuple]:
    """name -> (page, language, theme, (width, height), what to do before the picture)."""

    def compare(driver):
        driver.find_element(By.CSS_SELECTOR, "#other option:nth-child(9)").click()
        driver.find_element(By.CSS_SELECTOR, '#key-strip [data-position="6"]').click()

    def lift(driver):
        for chosen in ("lift", "no-sink"):
            driver.find_element(By.ID, chosen).click()
        driver.find_element(By.CSS_SELECTOR, '#query-strip [data-position="12"]').click()

    return {
        "explorer_zh_light": (small_page, "zh", "light", (1280, 1900), lift),
        "explorer_en_dark": (long_page, "en", "dark", (1280, 1900), compare),
    }


def main(names: list[str]) -> None:
    HERE.mkdir(exist_ok=True)
    for name, (page, language, theme, size, act) in shots().items():
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = write_page(page(), Path(folder) / "page.html", language=language)
            driver = browser(*size, str(Path(folder) / "profile"))
            try:
                driver.get(path.as_uri())
                ready = "return document.documentElement.dataset.ready"
                WebDriverWait(driver, 20).until(lambda d: d.execute_script(ready) == "yes")
                driver.find_element(By.CSS_SELECTOR, f'#theme option[value="{theme}"]').click()
                act(driver)
                WebDriverWait(driver, 5).until(lambda d: d.execute_script("return new Promise(r => setTimeout(r, 400, true))"))
                driver.save_screenshot(str(HERE / f"{name}.png"))
                for line in driver.get_log("browser"):
                    print(name, line)
            finally:
                driver.quit()
        print(HERE / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])

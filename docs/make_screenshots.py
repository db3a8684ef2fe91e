"""Make the screenshots of the explorer in docs/pictures, in both languages and both colour schemes, with Chromium and no network.

Run from the root of the repository: python docs/make_screenshots.py [name ...]
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
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


READY = "return document.documentElement.dataset.ready"


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
    return PageData(
        "我们看见注意力 — four layers, six heads",
        [texts],
        [made_layer(n, count, 6) for n in range(4)],
        ["made weights"],
    )


def long_page() -> PageData:
    """Six layers of eight heads over 384 English tokens."""
    words = [
        "the",
        "cat",
        "sat",
        "on",
        "the",
        "mat",
        "because",
        "it",
        "was",
        "tired",
        "of",
        "walking",
        "in",
        "the",
        "rain",
        "and",
        "then",
        "it",
        "slept",
    ]
    texts = TokenSequence("text", [words[i % len(words)] for i in range(384)])
    return PageData("Six layers, eight heads, 384 tokens", [texts], [made_layer(n, 384, 8) for n in range(6)])


def pooled_page() -> PageData:
    """Eight layers of eight heads over 8,192 tokens at summary level, in five segments."""
    count, bins, edges = 8192, 64, np.arange(0, 8193, 128)
    names = (("系统提示", 0), ("用户", 400), ("检索文档", 900), ("工具结果", 6200), ("回答", 7700))
    stops = [start for _, start in names[1:]] + [count]
    texts = TokenSequence(
        "长文本", [CHINESE[i % 20] for i in range(count)], [Segment(n, a, b) for (n, a), b in zip(names, stops)]
    )
    entries = []
    for layer in range(8):
        allowed = causal(bins)
        mass = made_heads(bins, 8, allowed, layer).astype(np.float32)
        random = np.random.default_rng(layer)
        flow = np.tril(random.dirichlet([1, 1, 2, 1, 1], (8, 5)))
        entries.append(LayerMaps(
            layer=layer, path=f"model.layers.{layer}.self_attn", heads=range(8), pooled=mass, query_edges=edges, key_edges=edges,
            peak=mass**0.7, even=allowed / allowed.sum(1, keepdims=True), received=random.gamma(0.3, 1e-4, (8, count)),
            segment_mass=flow / flow.sum(-1, keepdims=True), scores={"sink": mass[:, :, 0].mean(-1), "entropy": random.random(8)},
            series={"entropy": np.log1p(np.arange(count)) * random.uniform(0.3, 0.9, (8, 1)) + random.normal(0, 0.3, (8, count))},
            trust={"sink share": mass[:, :, 0].mean(-1), "output share": random.dirichlet(np.ones(8))},
        ))  # fmt: skip
    return PageData("8,192 个词元，摘要级别", [texts], entries)


def cross_page() -> PageData:
    """Decoder self-attention and cross-attention of a small translator."""
    source = TokenSequence("source", ["Die", "Katze", "saß", "auf", "der", "Matte", "."])
    target = TokenSequence("target", ["⟨s⟩", "The", "cat", "sat", "on", "the", "mat", "."])
    entries = []
    for layer in range(3):
        own = made_heads(8, 4, causal(8), layer)
        logits = np.random.default_rng(layer).normal(0, 0.8, (4, 8, 7)) + 3 * (
            np.arange(8)[:, None] - 1 == np.arange(7)
        )
        cross = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        for kind, weights, keys in (("self", own, 1), ("cross", cross, 0)):
            entries.append(LayerMaps(
                layer=layer, path=f"decoder.layers.{layer}.{kind}_attn", heads=range(4), kind=kind, queries=1, keys=keys, weights=weights,
                allowed=causal(8) if kind == "self" else None, scores={"largest weight": weights.max(-1).mean(-1)},
            ))  # fmt: skip
    return PageData("Translation: decoder self-attention and cross-attention", [source, target], entries)


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

    def cross(driver):
        driver.execute_script("document.getElementById('overview').focus()")
        for key in ("\ue015", "\ue007"):
            driver.find_element(By.ID, "overview").send_keys(key)
        driver.execute_async_script("setTimeout(arguments[0], 200)")
        driver.find_element(By.CSS_SELECTOR, '#query-strip [data-position="2"]').click()
        driver.find_element(By.CSS_SELECTOR, "#tables summary").click()

    def pooled(driver):
        driver.find_element(By.CSS_SELECTOR, '#query-strip [data-position="300"]').click()

    return {
        "explorer_en_light": (cross_page, "en", "light", (1280, 1900), cross),
        "explorer_zh_dark": (pooled_page, "zh", "dark", (1280, 2500), pooled),
        "explorer_narrow": (small_page, "en", "light", (600, 2600), lift),
        "explorer_zh_light": (small_page, "zh", "light", (1280, 1900), lift),
        "explorer_en_dark": (long_page, "en", "dark", (1280, 1900), compare),
    }


def save_small(png: bytes, path: Path) -> None:
    """Write a screenshot as a small file, every colour kept."""
    Image.open(io.BytesIO(png)).convert("RGB").save(path, optimize=True)


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
                WebDriverWait(driver, 20).until(lambda d: d.execute_script(READY) == "yes")
                driver.find_element(By.CSS_SELECTOR, f'#theme option[value="{theme}"]').click()
                act(driver)
                WebDriverWait(driver, 5).until(
                    lambda d: d.execute_script("return new Promise(r => setTimeout(r, 400, true))")
                )
                save_small(driver.get_screenshot_as_png(), HERE / f"{name}.png")
                for line in driver.get_log("browser"):
                    print(name, line)
            finally:
                driver.quit()
        print(HERE / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])

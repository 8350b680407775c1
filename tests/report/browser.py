"""A headless Chromium, driven by Selenium, for tests of pages."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

#: As root and without a network. Without the background flags Chromium looks up hosts at its start.
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


def find_chromium() -> tuple[str, str]:
    """The browser and its driver; the test is skipped where they are missing, unless FIELDFIT_BROWSER is "required"."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        missing = "Chromium and its driver are not installed (Debian: apt-get install chromium chromium-driver)"
        if os.environ.get("FIELDFIT_BROWSER") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    return browser, driver


@contextmanager
def opened_browser() -> Iterator[Any]:
    """A browser with an empty profile, whose console is kept."""
    webdriver = pytest.importorskip("selenium.webdriver")
    browser, path = find_chromium()
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(path))
        try:
            yield driver
        finally:
            driver.quit()


def open_page(driver: Any, path: Path, *, width: int = 1100, height: int = 900, **features: str) -> None:
    """Open a file in a window of this size; ``features`` are media features such as prefers_color_scheme, or media."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    media = features.pop("media", "")
    listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": listed})
    driver.get(path.as_uri())

"""A headless Chromium, and the width of its screen."""

from __future__ import annotations

import shutil

import pytest

__all__ = ["PHONE", "WIDE", "headless_chromium", "needs_chromium", "set_width"]

WIDE, PHONE = 1400, 390
_CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_CHROMEDRIVER = shutil.which("chromedriver")

needs_chromium = pytest.mark.skipif(
    not (_CHROMIUM and _CHROMEDRIVER), reason="chromium or chromedriver is not installed"
)


def headless_chromium(webdriver):
    """Yield a headless Chromium that records errors of the page, and close it."""
    options = webdriver.ChromeOptions()
    options.binary_location = _CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    service = webdriver.chrome.service.Service(_CHROMEDRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def set_width(browser, width) -> None:
    """Show pages as on a screen of this width; a window cannot be as narrow as a phone."""
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

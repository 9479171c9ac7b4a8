"""Debian's chromium without a window, driven by its DevTools protocol over two pipes."""
import base64
import json
import os
import shutil
import subprocess
import tempfile

import pytest


def find_chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser")


def installed_chromium():
    """The program; installed with apt-get where there is none. Skips the test where that fails."""
    if find_chromium() is None:
        as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        for command in ([*as_root, "apt-get", "update", "-qq"], [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=900)
            except (OSError, subprocess.TimeoutExpired) as problem:
                pytest.skip(f"there is no chromium, and it cannot be installed: {problem}")
        if find_chromium() is None:
            pytest.skip(f"there is no chromium, and apt-get install chromium failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return find_chromium()


class Page:
    """One page in a browser of its own. `complaints` are the console's warnings and errors and the exceptions of scripts."""

    def __init__(self, program, address, width=1280, height=900):
        self.complaints, self.requests, self.sent, self.rest, self.session, self.loaded = [], [], 0, b"", None, False
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (to_browser, self.writing), (self.reading, from_browser) = os.pipe(), os.pipe()
        words = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", f"--user-data-dir={self.folder.name}",
                 f"--window-size={width},{height}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", *words], pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser), os.close(from_browser)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.loaded = False
        self.call("Page.navigate", url=address)
        while not self.loaded:
            self._read()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self.writing)
        self.process.kill()
        self.process.wait()
        os.close(self.reading)
        self.folder.cleanup()

    def _read(self):
        while b"\0" not in self.rest:
            more = os.read(self.reading, 1 << 20)
            assert more, f"chromium ended with {self.process.wait()}"
            self.rest += more
        text, _, self.rest = self.rest.partition(b"\0")
        message = json.loads(text)
        method, given = message.get("method"), message.get("params", {})
        self.loaded |= method == "Page.loadEventFired"
        if method == "Runtime.exceptionThrown" or method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert") or method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.complaints.append(given)
        if method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        return message

    def call(self, method, **given):
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": given} | ({"sessionId": self.session} if self.session else {})
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.sent:
                assert "error" not in answer, answer
                return answer["result"]

    def value(self, script):
        """What an expression of JavaScript gives, as data."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, selector):
        """Clicks with the mouse into the middle of the first element of a selector."""
        x, y = self.value(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center', inline: 'center'}}); const r = e.getBoundingClientRect(); "
                          "return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        self.click_at(x, y)

    def click_at(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def write(self, text):
        """Types a text into the element that has the focus."""
        self.call("Input.insertText", text=text)

    def screenshot(self, path, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

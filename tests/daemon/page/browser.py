"""A headless Chromium, asked over pipes by its DevTools protocol: pages are opened, clicked, read, seen."""

import base64
import itertools
import json
import os
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
#: Seconds after which what does not come is not coming.
PATIENCE = 300.0
_ARGUMENTS = (
    "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--no-default-browser-check", "--mute-audio", "--hide-scrollbars",
    "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--no-proxy-server",
    # Processes that are started in case that somebody needs them.
    "--disable-features=SpareRendererForSitePerProcess,PreloadTopChromeWebUI",
)  # fmt: skip
#: Whether a page that could not be loaded is being loaded again.
_RELOADED = """(() => {
  const again = document.querySelector("#main > .failed button");
  again?.click();
  return Boolean(again);
})()"""


class LeftError(AssertionError):
    """The page was left for another while it was asked."""


class Browser:
    """The process; made by `browser`."""

    def __init__(self, folder: str) -> None:
        there, here = os.pipe(), os.pipe()
        command = [str(PROGRAM), *_ARGUMENTS, f"--user-data-dir={folder}", "about:blank"]

        def give() -> None:
            os.dup2(there[0], 10)
            os.dup2(here[1], 11)
            os.dup2(10, 3)
            os.dup2(11, 4)

        self._process = subprocess.Popen(
            command, preexec_fn=give, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(there[0])
        os.close(here[1])
        self._out, self._in = os.fdopen(there[1], "wb", 0), os.fdopen(here[0], "rb", 0)
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.Queue[Any]] = {}
        self._pages: dict[str, Page] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def page(self, url: str, *, width: int = 1280, height: int = 860, dark: bool = False) -> "Page":
        """A tab of its own, with cookies of its own."""
        context = self.ask("Target.createBrowserContext")["browserContextId"]
        target = self.ask("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, context)
        page.begin(width, height, dark=dark)
        page.go(url)
        return page

    def ask(self, method: str, session: str = "", **values: Any) -> Any:
        """Send a command and return its result; AssertionError when the browser rejects it."""
        number = next(self._numbers)
        answer = self._answers[number] = queue.Queue()
        to = {"sessionId": session} if session else {}
        message = {"id": number, "method": method, "params": values, **to}
        self._out.write(json.dumps(message).encode() + b"\0")
        found = answer.get(timeout=PATIENCE)
        if "error" in found:
            refused = LeftError if "navigated" in found["error"]["message"] else AssertionError
            raise refused(f"{method}: {found['error']}")
        return found["result"]

    def close_pages(self) -> None:
        """Close all tabs: those that stay open go on asking daemons that are gone."""
        for page in list(self._pages.values()):
            page.close()

    def leave(self, session: str, context: str) -> None:
        """Close a tab."""
        del self._pages[session]
        self.ask("Target.disposeBrowserContext", browserContextId=context)

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._out.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)
        self._in.close()

    def _read(self) -> None:
        rest = b""
        while part := self._in.read(1 << 16):
            *messages, rest = (rest + part).split(b"\0")
            for text in messages:
                message = json.loads(text)
                if "id" in message:
                    self._answers.pop(message["id"]).put(message)
                elif (page := self._pages.get(message.get("sessionId", ""))) is not None:
                    page.told(message["method"], message["params"])


class Page:
    """A tab."""

    def __init__(self, browser: Browser, session: str, context: str) -> None:
        self._browser, self._session, self._context = browser, session, context
        #: What the page complained of, or what its scripts failed with.
        self.complaints: list[str] = []
        #: Whether a network card came or went, as in other tests, while something was loaded.
        self._disturbed = False
        #: All that was asked for: URLs.
        self.asked: list[str] = []

    def begin(self, width: int, height: int, *, dark: bool) -> None:
        """Be of that size, and tell of everything."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def resize(self, width: int, height: int) -> None:
        """Be of another size, pixels; a phone's where it is narrow."""
        phone = width < 600
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.ask("Emulation.setDeviceMetricsOverride", **size)

    def ask(self, method: str, **values: Any) -> Any:
        """See `Browser.ask`."""
        return self._browser.ask(method, self._session, **values)

    def go(self, url: str) -> None:
        """Open an address."""
        self._disturbed = False
        self.ask("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Evaluate an expression and return its value; AssertionError when it raises."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self, selector: str = "body") -> str:
        """The text that is seen of the first such element; empty where there is none."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def until(self, script: str) -> Any:
        """Wait until an expression is true, on this page or the next one, and return its value."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with suppress(LeftError):
                if found := self.run(script):
                    return found
                if self._disturbed:
                    self._disturbed = not self.run(_RELOADED)
            time.sleep(0.03)
        raise AssertionError(f"{script}: {self.text()[:2000]} {self.complaints}")

    def sees(self, text: str, selector: str = "body") -> None:
        """Wait until a text is seen."""
        self.until(
            f"(document.querySelector({json.dumps(selector)})?.innerText ?? '').includes({json.dumps(text)})"
        )

    def click(self, selector: str) -> None:
        """Click the middle of the first such element, as a mouse does."""
        where = self.until(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            "if (!found) return null;"
            "found.scrollIntoView({block: 'center'}); const r = found.getBoundingClientRect();"
            "return r.width ? [r.x + r.width / 2, r.y + r.height / 2] : null; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            at = {"x": where[0], "y": where[1], "button": "left", "clickCount": 1}
            self.ask("Input.dispatchMouseEvent", type=kind, **at)

    def press(self, key: str) -> None:
        """Press a key by its name: Enter, ArrowDown, /, ..."""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36}
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        code = codes.get(key, ord(key[0].upper()))
        for kind in ("keyDown", "keyUp"):
            more = text if kind == "keyDown" else {}
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)

    def type(self, text: str) -> None:
        """Put a text where the cursor is."""
        self.ask("Input.insertText", text=text)

    def picture(self, path: Path) -> None:
        """Save a screenshot of the page as a PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def metrics(self) -> Mapping[str, float]:
        """The browser's own counters: TaskDuration, LayoutDuration, ... seconds of the main thread."""
        self.ask("Performance.enable", timeDomain="threadTicks")
        return {one["name"]: one["value"] for one in self.ask("Performance.getMetrics")["metrics"]}

    def close(self) -> None:
        """Close it, with all that it knows."""
        self._browser.leave(self._session, self._context)

    def told(self, method: str, values: Mapping[str, Any]) -> None:
        """Something happened."""
        if method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and "ERR_NETWORK_CHANGED" in values["entry"]["text"]:
            self._disturbed = True
        elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
            self.complaints.append(f"{values['entry']['text']} {values['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.asked.append(values["request"]["url"])


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser, until the end."""
    with TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        found = Browser(folder)
        try:
            yield found
        finally:
            found.close()

"""A real browser without a window: Chromium, driven by the DevTools protocol over loopback."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), "")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root has no sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-port=0",
)
SECONDS = 60  # on a busy machine
KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), " ": (32, " ")}
MODIFIERS = {"ctrl": 2, "shift": 8}


class Tab:
    """One page of the browser. `messages` has the events of its console, its policy and its network."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._numbers = socket, count(1)
        self.messages: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Page.setLifecycleEventsEnabled", enabled=True)

    def send(self, method: str, **params: Any) -> Any:
        """Send a command; returns its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (message := self._read()).get("id") != number:
            pass
        assert "error" not in message, message
        return message["result"]

    def _read(self) -> dict[str, Any]:
        """The next message of the browser; events are kept in `messages`."""
        message = json.loads(self._socket.recv(SECONDS))
        if "id" not in message:
            self.messages.append(message)
        return message

    def open(self, address: str) -> None:
        """Open a page, and wait until it has loaded its files."""
        loader = self.send("Page.navigate", url=address)["loaderId"]
        events = (message["params"] for message in self.messages if message["method"] == "Page.lifecycleEvent")
        if any(event["loaderId"] == loader and event["name"] == "load" for event in events):
            return
        while True:
            params = self._read().get("params", {})
            if params.get("loaderId") == loader and params.get("name") == "load":
                return

    def value(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + SECONDS
        while not self.value(f"Boolean({script})"):
            assert time.monotonic() < end, f"not within {SECONDS} s: {script}\n{self.value('document.body.innerText')}"
            time.sleep(0.02)

    def texts(self, selector: str) -> list[str]:
        """The visible texts of the elements that match a selector."""
        return self.value(f"Array.from(document.querySelectorAll({json.dumps(selector)}), (one) => one.innerText)")

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        script = f"""(() => {{
            const one = document.querySelector({json.dumps(selector)});
            one.scrollIntoView({{block: "center", behavior: "instant"}});
            const {{x, y, width, height}} = one.getBoundingClientRect();
            return {{x: x + width / 2, y: y + height / 2}};
        }})()"""
        place = self.value(script)
        for what in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=what, button="left", clickCount=1, **place)

    def press(self, key: str, *modifiers: str) -> None:
        """Press a key of KEYS in the element that has the focus."""
        code, text = KEYS[key]
        common = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        common["modifiers"] = sum(MODIFIERS[name] for name in modifiers)
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def insert(self, text: str) -> None:
        """Paste a text into the element that has the focus, in place of what is selected there."""
        self.send("Input.insertText", text=text)

    def fill(self, selector: str, text: str) -> None:
        """Replace the text of an input."""
        self.click(selector)
        self.value("document.activeElement.select()")
        self.insert(text)

    def choose(self, selector: str, option: str) -> None:
        """Choose an option of a select by its value. A list without a window cannot be clicked."""
        self.value(f"""(() => {{
            const one = document.querySelector({json.dumps(selector)});
            one.value = {json.dumps(option)};
            one.dispatchEvent(new Event("change", {{bubbles: true}}));
        }})()""")

    def problems(self, address: str) -> list[Any]:
        """Requests to another address, uncaught errors, and breaches of the policy, since the tab was opened."""
        params: dict[str, list[Any]] = {}
        for message in self.messages:
            params.setdefault(message["method"], []).append(message["params"])
        urls = [event["request"]["url"] for event in params["Network.requestWillBeSent"]]
        entries = [event["entry"] for event in params.get("Log.entryAdded", [])]
        return [
            *(url for url in urls if not url.startswith(address)),
            *params.get("Runtime.exceptionThrown", []),
            *(entry for entry in entries if entry["source"] != "network"),  # a status such as 422 is no problem
        ]

    def picture(self, file: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Write a picture of the whole page, for a person to look at."""
        self.size(width, height)
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        time.sleep(0.3)
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 2 if width < 500 else 1}
        self.send("Emulation.setDeviceMetricsOverride", mobile=width < 500, **metrics)


@contextmanager
def browser(place: Path) -> Iterator[Callable[[], Tab]]:
    """Chromium with its files in `place`, until the block ends; yields a function that opens a tab."""
    port = place / "DevToolsActivePort"
    with (place / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, *FLAGS, f"--user-data-dir={place}", "about:blank"],
            stdout=log,
            stderr=log,
            env=os.environ | {"HOME": str(place), "TMPDIR": str(place)},
        )
    sockets: list[ClientConnection] = []
    try:
        until = time.monotonic() + SECONDS
        while not (port.exists() and len(port.read_text().split()) == 2):
            assert process.poll() is None, (place / "chromium.log").read_text()
            assert time.monotonic() < until, (place / "chromium.log").read_text()
            time.sleep(0.05)
        number, path = port.read_text().split()
        main = _connected(f"ws://127.0.0.1:{number}{path}", sockets)

        def tab() -> Tab:
            main.send(json.dumps({"id": 1, "method": "Target.createTarget", "params": {"url": "about:blank"}}))
            target = json.loads(main.recv(SECONDS))["result"]["targetId"]
            return Tab(_connected(f"ws://127.0.0.1:{number}/devtools/page/{target}", sockets))

        yield tab
    finally:
        for socket in sockets:
            socket.close()
        process.terminate()
        process.wait(SECONDS)


def _connected(address: str, sockets: list[ClientConnection]) -> ClientConnection:
    sockets.append(connect(address, max_size=None, proxy=None))
    return sockets[-1]

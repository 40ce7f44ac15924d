"""The command: its process serves, checks, and refuses an address that it cannot use."""

import re
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from kraft.cli.command import run
from kraft.cli.console_decoders import decoder_of
from kraft.console.decoders import show
from kraft_native.base.errors import InvalidArgumentError
from tests.cli.nodes import END_SECONDS, Started, command
from tools.tree import ROOT


def test_it_serves_until_it_is_stopped(node: Started) -> None:
    with subprocess.Popen(command("console", "--bootstrap", node.bootstrap, "--listen", "127.0.0.1:0"), cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"console: (http://127\.0\.0\.1:\d+/)\n", line)
        try:
            assert found is not None, line
            with urllib.request.urlopen(found[1], timeout=END_SECONDS) as answer:
                assert "Every partition has a leader" in answer.read().decode()
        finally:
            process.send_signal(signal.SIGTERM)
            _, complaints = process.communicate(timeout=END_SECONDS)
        assert (complaints, process.returncode) == ("", 0)


def test_check(node: Started, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["console", "--check", "--bootstrap", node.bootstrap, "--listen"]
    assert run([*arguments, "127.0.0.1:0"]) == 0
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert run([*arguments, f"127.0.0.1:{other.getsockname()[1]}"]) == 1
    assert "Address already in use" in capsys.readouterr().err
    for wrong in ("8080", "localhost:x", "localhost:70000", ":80"):
        assert run([*arguments, wrong]) == 2
        assert "is not HOST:PORT" in capsys.readouterr().err


def test_decoders_by_a_schema(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    schema = tmp_path / "order.avsc"
    schema.write_text('{"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}')
    name, decode = decoder_of(f"order=avro:{schema}")
    assert name == "order"
    assert show(b"\x0e", "order", {name: decode}).text == '{\n  "id": 7\n}'
    assert show(b"\0\0\0\0\x01\x0e", "order", {name: decode}).text == '{\n  "id": 7\n}'
    assert show(b"\xff" * 12, "order", {name: decode}).kind == "hex"
    for wrong in ("order", "order=avro:", "=avro:x", f"order=xml:{schema}", "order=avro:/missing"):
        with pytest.raises(InvalidArgumentError):
            decoder_of(wrong)

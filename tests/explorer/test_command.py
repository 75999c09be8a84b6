"""The command: its address, its port, Ctrl-C, and what it refuses."""

import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from typer.testing import CliRunner

from stochattn import explorer
from stochattn.cli import build_app

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
def test_the_command_serves_a_page_until_ctrl_c(inputs):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "stochattn", "explore", str(inputs["table"]), "--no-browser", "--port", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip()
        assert address.startswith(f"http://127.0.0.1:{port}/")
        with urllib.request.urlopen(address, timeout=60) as answer:
            page = answer.read().decode()
        assert "patients.csv" in page
        assert "http://" not in page.replace(address, "")  # no other host
        assert "https://" not in page
        used = CliRunner().invoke(build_app(), ["explore", str(inputs["table"]), "--no-browser", "--port", str(port)])
        assert used.exit_code == 2
        assert f"port {port} cannot be used" in used.output
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "Stop it with Ctrl-C (the exit code is then 0)." in errors
    assert "Traceback" not in errors


def test_without_panel_the_command_names_the_extra(inputs, monkeypatch):
    monkeypatch.setattr(explorer, "find_spec", lambda name: None)
    result = CliRunner().invoke(build_app(), ["explore", str(inputs["table"])])
    assert result.exit_code == 2
    assert "pip install 'stochattn[explore]'" in result.output


def test_impossible_conditions_are_an_error_before_a_page_is_served(inputs):
    result = CliRunner().invoke(
        build_app(), ["explore", str(inputs["table"]), "--condition", "age=900", "--no-browser"]
    )
    assert result.exit_code == 2
    assert "age=900" in result.output

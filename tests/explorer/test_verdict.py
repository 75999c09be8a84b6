"""The process of a verdict: it ends with the page, with the server and with the program."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from stochattn.explorer import tools as verdict

from .serving import Pages

posix = pytest.mark.skipif(sys.platform == "win32", reason="process groups are those of POSIX")


class Endless:
    """What a verdict process unpickles by starting a shell, which makes the file `ended` if it is asked to end."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        command = f"cd '{self.folder}'; trap 'touch ended; kill $!; exit' TERM; sleep 60 & touch begun; wait"
        return os.system, (command,)


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def begun(folder):
    """A verdict process that has started another process."""
    process = verdict.VerdictProcess(Endless(folder), 0)
    threading.Thread(target=_wait, args=(process,), daemon=True).start()
    wait_for((folder / "begun").exists)
    return process


def _wait(process):
    with pytest.raises(verdict.Cancelled):
        process.result()


@posix
def test_cancel_ends_what_the_process_has_started(tmp_path):
    begun(tmp_path).cancel()
    wait_for((tmp_path / "ended").exists, 20)


@posix
def test_a_server_that_stops_ends_the_verdicts_of_its_pages(explorers, tmp_path):
    pages = Pages()
    server = pages.serve(explorers["table"])
    with urllib.request.urlopen(server.address, timeout=60) as answer:
        assert answer.status == 200
    (session,) = server._sessions
    session.tools._process = begun(tmp_path)
    pages.close()
    wait_for((tmp_path / "ended").exists, 20)


@posix
def test_a_program_that_ends_leaves_no_verdict_behind(tmp_path):
    program = f"import pathlib; from tests.explorer.test_verdict import begun; begun(pathlib.Path({str(tmp_path)!r}))"
    path = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, timeout=120)
    assert done.returncode == 0
    wait_for((tmp_path / "ended").exists, 20)


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_is_killed_leaves_no_verdict_behind(tmp_path, number):
    """Neither signal runs the handlers of exits: the verdict process must notice the end itself."""
    program = (
        "import pathlib, time; from tests.explorer.test_verdict import begun; "
        f"begun(pathlib.Path({str(tmp_path)!r})); time.sleep(100)"
    )
    path = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path})
    try:
        wait_for((tmp_path / "begun").exists)
    finally:
        process.send_signal(number)
        process.wait(60)
    wait_for((tmp_path / "ended").exists, 20)

"""Kinds of data of other packages are known to `fit` and to the command line without an edit of either."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from threading import Event, Thread
from time import sleep

import numpy as np
import pytest
import sensors
from typer.testing import CliRunner

import stochattn as sa
from stochattn.cli import build_app
from stochattn.kinds import kind_names, register_kind, registry
from stochattn.kinds.summary import read_summary


@pytest.fixture
def _unregistered():
    registry._REGISTERED.pop("sensor")
    yield
    register_kind(sensors.KIND)


def installed(monkeypatch, **values):
    """Make it look as if packages with these entry points were installed."""
    entries = [EntryPoint(name, value, "stochattn.kinds") for name, value in values.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: [one for one in entries if one.group == group])
    monkeypatch.setattr(registry, "_PLUGINS", ["stochattn.kinds"])


@pytest.mark.usefixtures("_unregistered")
def test_an_installed_kind_is_found(monkeypatch, tmp_path):
    assert "sensor" not in kind_names()
    installed(monkeypatch, sensor="sensors:KIND")
    source = sensors.write_readings(tmp_path / "a.sensors")
    words = ["sample", str(source), "-n", "4", "--unit", "ampere", "--scale", "a=2", "--scale", "b=3"]
    result = CliRunner().invoke(build_app(), [*words, "-o", str(tmp_path / "new.sensors")])
    assert result.exit_code == 0, result.output
    assert read_summary(tmp_path / "new.sensors").options == {"unit": "ampere", "scale": ["a=2", "b=3"]}
    stored = sensors.KIND.read(source, sensors.SensorOptions()).stored
    scaled = sensors.KIND.read(source, sensors.SensorOptions(scale={"a": 2.0, "b": 3.0})).stored
    np.testing.assert_allclose(scaled, stored * [2, 3, 1, 1])


@pytest.mark.usefixtures("_unregistered")
@pytest.mark.parametrize("value", ["no_such_package:KIND", "sensors:SensorCodec"])
def test_a_plug_in_that_cannot_be_loaded_stops_nothing(monkeypatch, value):
    installed(monkeypatch, broken=value, sensor="sensors:KIND")
    with pytest.warns(UserWarning, match=rf"the plug-in 'broken' \({value}\) was not loaded: "):
        build_app()
    assert "sensor" in kind_names()


@pytest.mark.usefixtures("_unregistered")
def test_a_thread_waits_for_plug_ins_that_another_thread_loads(monkeypatch):
    begun = Event()

    class Slow:
        def load(self):
            begun.set()
            sleep(0.2)
            return sensors.KIND

    installed(monkeypatch)
    monkeypatch.setattr(registry, "entry_points", lambda group: [Slow()])
    first = Thread(target=kind_names)
    first.start()
    assert begun.wait(5)
    found = kind_names()
    first.join()
    assert "sensor" in found


@pytest.mark.usefixtures("_unregistered")
def test_fit_finds_an_installed_kind_and_what_a_program_registers_comes_first(monkeypatch, tmp_path):
    installed(monkeypatch, sensor="sensors:KIND")
    source = sensors.write_readings(tmp_path / "a.sensors")
    assert sa.fit(source).kind is sensors.KIND
    own = sensors.SensorKind()
    register_kind(own)
    installed(monkeypatch, sensor="sensors:KIND")
    assert sa.fit(source).kind is own


def test_a_broken_package_gives_one_line_on_the_command_line(tmp_path):
    package = tmp_path / "broken-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[stochattn.kinds]\nodd = no_such_package:KIND\n")
    source = sensors.write_readings(tmp_path / "a.sensors")
    folders = (tmp_path, Path(sa.__file__).parents[1], os.environ.get("PYTHONPATH", ""))
    done = subprocess.run(
        [sys.executable, "-m", "stochattn", "inspect", str(source), "--kind", "music"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    first, second = done.stderr.splitlines()
    assert first.startswith("note: the plug-in 'odd' (no_such_package:KIND) was not loaded: ModuleNotFoundError")
    assert second.startswith("error: --kind must be one of")

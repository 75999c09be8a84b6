"""Kinds of data from other packages are available on the command line."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest
import sensors
from typer.testing import CliRunner

from stochattn.cli import build_app, plugins
from stochattn.data import kind_names, register_kind, unregister_kind
from stochattn.data.output import read_summary


@pytest.fixture
def _unregistered():
    unregister_kind("sensor")
    yield
    register_kind(sensors.KIND)


def installed(monkeypatch, **values):
    """Simulate installed packages with these entry points."""
    entries = [EntryPoint(name, value, plugins.GROUP) for name, value in values.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: [one for one in entries if one.group == group])


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
def test_a_plug_in_that_cannot_be_loaded_is_skipped(monkeypatch, capsys, value):
    installed(monkeypatch, broken=value, sensor="sensors:KIND")
    build_app()
    assert f"note: the plug-in 'broken' ({value}) was not loaded: " in capsys.readouterr().err
    assert "sensor" in kind_names()

"""Files and folders are written atomically."""

import os
from contextlib import suppress

import pytest

from stochattn._backend.files import atomic_file, atomic_folder, write_atomically


def test_a_file_gets_its_name_when_it_is_complete(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with pytest.raises(FileNotFoundError, match="create it first"):
        write_atomically(path, "one")
    path.parent.mkdir()
    write_atomically(path, "one")
    assert path.read_text() == "one"
    with suppress(OSError), atomic_file(path) as unfinished:
        unfinished.write_text("tw")
        raise OSError("disk full")
    assert path.read_text() == "one"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_a_folder_replaces_the_old_one_when_it_is_complete(tmp_path):
    path = tmp_path / "folder"
    with atomic_folder(path) as folder:
        (folder / "old").touch()
    with suppress(KeyboardInterrupt), atomic_folder(path) as folder:
        (folder / "half").touch()
        raise KeyboardInterrupt
    assert [p.name for p in path.iterdir()] == ["old"]
    with atomic_folder(path) as folder:
        (folder / "new").touch()
    assert [p.name for p in path.iterdir()] == ["new"]
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_failed_replacement_keeps_the_old_folder(tmp_path, monkeypatch):
    path = tmp_path / "folder"
    with atomic_folder(path) as folder:
        (folder / "old").touch()
    move = os.replace

    def second_fails(source, target):
        if os.path.basename(os.path.dirname(source)) == "new":
            raise OSError("no")
        return move(source, target)

    monkeypatch.setattr(os, "replace", second_fails)
    with suppress(OSError), atomic_folder(path) as folder:
        (folder / "new").touch()
    assert [p.name for p in path.iterdir()] == ["old"]
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]

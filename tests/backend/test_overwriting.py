"""Files that Python calls write: an earlier one of ours is replaced, and any other only with replace=True."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import stochattn as sa
from stochattn.kinds import InputError
from stochattn.nn import HopfieldMemory

MEMORIES = np.eye(4)
MESSAGE = "exists, and is not what an earlier run wrote: name another file, or pass replace=True to replace it."


def save_draws(path, **options):
    sa.run(MEMORIES, 9.0, n_chains=2, n_steps=3, warmup=0, thin=1, rng=0).save(path, **options)


def save_memory(path, **options):
    HopfieldMemory(torch.eye(4), beta=9.0).save(path, **options)


def save_synthesizer(path, **options):
    sa.fit(np.random.default_rng(0).normal(0, 1, (12, 2))).save(path, **options)


def write_samples(path, **options):
    sa.sample(MEMORIES, 5, beta=9.0, rng=0, out=path, **options)


WRITERS = {
    "draws": (save_draws, "a.npz"),
    "memory": (save_memory, "a.safetensors"),
    "synthesizer": (save_synthesizer, "a.synth"),
    "samples": (write_samples, "a.npy"),
}


@pytest.mark.parametrize(("write", "name"), WRITERS.values(), ids=WRITERS)
def test_only_files_of_the_same_kind_are_replaced_without_a_word(write, name, tmp_path):
    path = tmp_path / name
    write(path)
    size = path.stat().st_size  # safetensors does not fix the order of its header
    write(path)  # a script that is run again
    assert path.stat().st_size == size
    path.write_bytes(b"thesis")
    with pytest.raises(InputError, match=MESSAGE) as error:
        write(path)
    assert repr(str(path)) in str(error.value)
    assert path.read_bytes() == b"thesis"
    write(path, replace=True)
    assert path.stat().st_size == size
    path.write_bytes(b"")  # nothing is lost
    write(path)
    assert path.stat().st_size == size


def test_arrays_and_tensors_of_a_user_are_kept(tmp_path):
    np.savez(tmp_path / "a.npz", state=np.array('{"format": "mine"}'))
    save_file({"patterns": torch.eye(2)}, tmp_path / "a.safetensors")
    np.save(tmp_path / "a.npy", np.eye(5))
    for write, name in (WRITERS["draws"], WRITERS["memory"], WRITERS["samples"]):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(InputError, match=MESSAGE):
            write(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_samples_whose_file_was_replaced_by_another_are_not_ours(tmp_path):
    write_samples(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.eye(5))  # beside the settings of 5 rows of 4
    with pytest.raises(InputError, match=MESSAGE):
        write_samples(tmp_path / "a.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.eye(5))


def test_another_file_is_refused_before_a_generator_is_fitted(tmp_path, monkeypatch):
    synth = sa.fit(np.random.default_rng(0).normal(0, 1, (12, 2)))
    (tmp_path / "a.synth").write_bytes(b"thesis")
    monkeypatch.setattr(type(synth.kind), "fit_generator", lambda *_: pytest.fail("a minute of work, for nothing"))
    with pytest.raises(InputError, match=MESSAGE):
        synth.save(tmp_path / "a.synth")

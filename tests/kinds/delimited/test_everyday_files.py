"""Files as people have them: signs and separators in numbers, comments, no header, bad cells in price histories."""

import cProfile
import pstats

import numpy as np
import pandas as pd
import pytest

import stochattn as sa
from made_tables import written
from stochattn.kinds import InputError
from stochattn.kinds.delimited.numbers import NumberForm, form_of, plain_number
from stochattn.kinds.delimited.reading import read_table, read_texts
from stochattn.kinds.registry import kind_for
from stochattn.kinds.tables.codec import TableCodec
from stochattn.kinds.tables.columns.inference import TableOptions
from stochattn.kinds.tables.kind import KIND


def file(folder, text, name="t.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


# --- Numbers with signs and separators


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("$12.50", "12.50"),
        ("€ 3", "3"),
        ("3 €", "3"),
        ("1,137", "1137"),
        ("2%", "2"),
        ("-$1,234.50", "-1234.50"),
        ("$-5", "-5"),
        ("US$ 7", "7"),
        ("1,137,000", "1137000"),
        ("1,13,7", None),
        ("1,5", None),
        ("--5", None),
        ("five", None),
        ("5 kg", None),
    ],
)
def test_numbers_that_cells_mean(cell, number):
    assert plain_number(cell) == number


def test_numbers_with_a_decimal_comma():
    assert plain_number("1.226,50 €", ",") == "1226.50"
    assert plain_number("1.226", ",") == "1226"
    assert plain_number("1.5", ",") is None


def test_a_form_is_one_for_the_whole_column():
    assert form_of(["$12.50", "$1,200.00", "", "-"], ".") == NumberForm("$", "", ",", True)
    assert form_of(["$-1", "$2"], ".") == NumberForm("$", "", "", False)
    assert form_of(["2 %", "3 %"], ".") == NumberForm("", " %")
    for cells in (["$2", "€3"], ["$2", "3"], ["1", "2"], ["2%", "much"], ["1,137", "1'137"], [""]):
        assert form_of(cells, ".") is None


MONEY = """price,fee,views,share,rate
$12.50,€ 3,"1,137",2%,0.5%
"$1,020.00",€ 1,98,10%,12%
,€ 7,"12,001",n/a,1.25%
-$7.25,€ 4,"5,500",99%,0.5%
$3.10,€ 5,"1,000,000",50%,3%
"""


def test_money_separators_and_percentages_are_numbers_and_written_back(tmp_path):
    codec = TableCodec.read(file(tmp_path, MONEY))
    assert [str(column.type) for column in codec.columns] == ["numeric", "integer", "integer", "integer", "numeric"]
    assert codec.stored["price"].tolist()[:2] == [12.5, 1020.0]
    assert codec.stored["views"].tolist() == [1137, 98, 12001, 5500, 1000000]
    assert codec.stored["share"].dtype == "Int64"
    assert written(codec, "csv", codec.stored, block=2).decode() == MONEY
    note = "column 'views': cells such as 1,137 are read as numbers, and new ones are written the same way"
    assert note in codec.notes
    new = sa.fit(tmp_path / "t.csv").sample(30, rng=0)
    path = tmp_path / "new.csv"
    path.write_bytes(written(codec, "csv", new))
    assert codec.same(KIND.read_new(codec, path), new).all()
    texts = pd.read_csv(path, dtype=str)
    assert texts["price"].dropna().str.fullmatch(r"-?\$\d{1,3}(,\d{3})*\.\d\d").all()
    assert texts["share"].dropna().str.fullmatch(r"\d+%").all()


def test_money_with_decimal_commas(tmp_path):
    text = "preis;menge\n1.226,50 €;1.137\n12,00 €;98\n7,25 €;2.500\n"
    codec = TableCodec.read(file(tmp_path, text))
    assert codec.stored.to_dict("list") == {"preis": [1226.5, 12.0, 7.25], "menge": [1137, 98, 2500]}
    assert written(codec, "csv", codec.stored).decode() == text


def test_forms_survive_saving(tmp_path):
    synth = sa.fit(file(tmp_path, MONEY))
    synth.save(tmp_path / "t.synth")
    new = synth.sample(5, rng=0)
    again = sa.load(tmp_path / "t.synth")
    assert written(again.codec, "csv", new) == written(synth.codec, "csv", new)


def test_two_currencies_in_a_column_are_texts(tmp_path):
    read = read_table(file(tmp_path, "price,x\n$5,1\n€5,2\n$6,4\n"))
    assert read.frame["price"].tolist() == ["$5", "€5", "$6"]


# --- Comments


def test_comments_are_skipped_and_lines_keep_their_numbers(tmp_path):
    text = '# made by a device, version 2\n#\na,b\n1,2\n# a pause\n3,"x\n#y"\n5,7\n'
    read = read_table(file(tmp_path, text))
    assert read.frame.to_dict("list") == {"a": [1, 3, 5], "b": ["2", "x\n#y", "7"]}
    assert read.notes == ("3 lines that begin with # are skipped as comments",)
    assert read.lines == (4, 7, 8)
    assert read_texts(tmp_path / "t.csv").notes == read.notes
    with pytest.raises(InputError, match=r"line 5: has 3 values where the first line has 2"):
        read_table(file(tmp_path, "# one\na,b\n1,2\n# two\n1,2,3\n"))
    with pytest.raises(InputError, match=r"line 2: columns 1, 2 have the same name 'a'"):
        read_table(file(tmp_path, "# one\na,a\n1,2\n"))


@pytest.mark.parametrize(
    ("text", "names", "rows", "notes"),
    [
        ("#id,age\n1,20\n2,30\n", ["#id", "age"], 2, 0),
        ("# by hand, twice\n# id,age\n1,20\n2,30\n", ["# id", "age"], 2, 1),
        ("# by hand, twice\nid,age\n1,20\n2,30\n", ["id", "age"], 2, 1),
        ("#age\n20\n30\n", ["#age"], 2, 0),
        ("colour,x\n#ff0000,1\n#00ff00,2\n#0000ff,3\n", ["colour", "x"], 3, 0),
        ("a,b\n#N/A,1\n2,3\n5,5\n", ["a", "b"], 3, 0),
        ("a,b\n1,1\n2,3\n#5,5\n", ["a", "b"], 2, 1),
    ],
    ids=str,
)
def test_lines_that_begin_so_and_are_no_comments(tmp_path, text, names, rows, notes):
    read = read_table(file(tmp_path, text))
    assert (list(read.frame), len(read.frame), len(read.notes)) == (names, rows, notes)


# --- Headers

WITHOUT = {
    "numbers": "1.5,2\n2.5,7\n3.5,4\n",
    "matrix": "1,2,3\n4,5,6\n7,8,9\n",
    "classes": "5.1,3.5,setosa\n4.9,3.0,setosa\n6.3,2.9,virginica\n",
    "names": "Anna,34\nBert,40\nCarl,28\nDora,31\n",
    "dates": "2021-03-01,7,open\n2021-03-02,8,open\n2021-03-05,9,shut\n",
    "money": "$3.50,yes\n$4.50,no\n$5.50,yes\n",
    "missing": "5,3.5,a\n,4.5,b\n2,,a\n",
    "first cell missing": ",3.5,a\n5,4.5,b\n,2.5,a\n",
    "runs of numbers": "A,1,2,3\nA,4,5,6\nB,7,9,8\n",
    "classes only": "m,red\nf,blue\nm,red\nf,red\nm,blue\n",
}
WITH = {
    "plain": "a,b\n1,2\n3,4\n",
    "years": "country,2019,2020,2021\nFrance,1.5,2,3\nItaly,2.5,2018,4\n",
    "one year": "country,2021\nFrance,5\nItaly,7\nSpain,6\n",
    "counts": "gene,1,2,3\nA,5,7,9\nB,2,4,1\n",
    "pandas": "0,1,2\n0.5,0.25,7\n0.75,1.5,8\n",
    "index": ",1,2\n0,5,1\n1,6,2\n",
    "texts": "sex,colour\nm,red\nf,blue\nm,red\nf,blue\n",
    "distinct": "name,town\nAnna,Graz\nBert,Linz\n",
    "dates": "ticker,2021-03-01,2021-03-02\nA,5,6\nB,7,8\n",
}


@pytest.mark.parametrize("text", WITHOUT.values(), ids=WITHOUT)
def test_files_without_a_header_are_found_out(tmp_path, text):
    read = read_table(file(tmp_path, text))
    n = text.partition("\n")[0].count(",") + 1
    assert list(read.frame) == [f"column {j + 1}" for j in range(n)]
    assert len(read.frame) == text.count("\n")
    assert f"the first line holds data, not names: columns are called column 1 to column {n}" in read.notes
    assert read_table(tmp_path / "t.csv", header=True).style.header


@pytest.mark.parametrize("text", WITH.values(), ids=WITH)
def test_headers_are_headers(tmp_path, text):
    read = read_table(file(tmp_path, text))
    assert list(read.frame) == text.partition("\n")[0].split(",")
    assert read.notes == ()
    assert len(read_table(tmp_path / "t.csv", header=False).frame) == text.count("\n")


def test_new_rows_of_a_file_without_a_header_have_none(tmp_path):
    rows = [f"{i * 7 % 60},{'ab'[i % 2]},{i * 1.5:.2f}" for i in range(40)]
    synth = sa.fit(file(tmp_path, "\n".join(rows)))
    assert synth.codec.K == 40
    new = synth.sample(3, rng=0)
    (tmp_path / "new.csv").write_bytes(written(synth.codec, "csv", new))
    assert len((tmp_path / "new.csv").read_text().splitlines()) == 3
    assert synth.codec.same(KIND.read_new(synth.codec, tmp_path / "new.csv"), new).all()
    named = TableCodec.read(tmp_path / "t.csv", TableOptions(header=True))
    assert (named.K, list(named.stored)) == (39, ["0", "a", "0.00"])


# --- Price histories


def history(folder, bad=None, **layout):
    rng = np.random.default_rng(0)
    prices = (100 * np.exp(np.cumsum(rng.normal(0, 0.01, (80, 3)), axis=0))).round(2)
    frame = pd.DataFrame(prices, columns=list("ABC"))
    frame.insert(0, "date", pd.bdate_range("2022-01-03", periods=80).strftime(layout.pop("dates", "%Y-%m-%d")))
    if bad is not None:
        frame["B"] = frame["B"].astype(object)
        frame.loc[7, "B"] = bad
    frame.to_csv(folder / "h.csv", index=False, **layout)
    return folder / "h.csv"


@pytest.mark.parametrize("dates", ["%Y-%m-%d", "%d.%m.%Y"])
def test_a_price_history_with_decimal_commas_is_one(tmp_path, dates):
    synth = sa.fit(history(tmp_path, sep=";", decimal=",", dates=dates))
    assert (synth.kind.name, synth.codec.tickers) == ("returns", ("A", "B", "C"))


def test_one_bad_cell_is_named_and_does_not_make_a_history_a_table(tmp_path):
    with pytest.raises(InputError, match=r"line 9, column 'B': 'halted' is not a number.*pass kind='table'\.$"):
        sa.fit(history(tmp_path, "halted"))
    assert sa.fit(tmp_path / "h.csv", kind="table").kind.name == "table"
    synth = sa.fit(history(tmp_path, "-"))
    assert synth.kind.name == "returns"
    assert "column 'B': - is read as missing" in synth.notes


def test_a_history_of_money(tmp_path):
    path = history(tmp_path)
    path.write_text(path.read_text().replace(",", ",$"))
    path.write_text(path.read_text().replace("$A", "A").replace("$B", "B").replace("$C", "C"))
    assert kind_for(path).name == "returns"
    assert sa.fit(path).codec.tickers == ("A", "B", "C")


def test_a_column_of_texts_beside_dates_makes_a_table(tmp_path):
    path = history(tmp_path)
    frame = pd.read_csv(path).assign(B=["open", "shut"] * 40)
    frame.to_csv(path, index=False)
    assert sa.fit(path).kind.name == "table"


# --- Tables that are on their side, or have one axis only


def test_a_transposed_table_is_called_so(tmp_path):
    rows = {"age": [str(i * 7 % 60) for i in range(20)], "sex": ["m", "f"] * 10, "weight": ["70.5"] * 20}
    header = ",".join(["sample", *(f"p{i}" for i in range(20))])
    text = "\n".join([header, *(",".join([name, *cells]) for name, cells in rows.items())])
    with pytest.raises(InputError, match=r"looks transposed: line 2 holds numbers and line 3 strings.* Pass transpose"):
        sa.fit(file(tmp_path, text))
    with pytest.raises(InputError, match="looks transposed"):
        read_table(file(tmp_path, "name,a,b,c\nage,1,2,3\nsex,m,f,m\n"))
    file(tmp_path, text)
    upright = pd.read_csv(tmp_path / "t.csv", index_col=0).T.rename_axis("sample")
    upright.to_csv(tmp_path / "t.csv")
    assert sa.fit(tmp_path / "t.csv").codec.K == 20


@pytest.mark.parametrize(
    "text",
    [
        "name,a,b,c\nx,1,2,3\ny,4,5,6\n",
        "name,a,b,c\nx,1,u,3\ny,4,v,6\n",
        "name,a,b,c\nx,u,v,w\ny,w,v,u\n",
        "name,a,b\nx,1,2\ny,u,v\n",
        "name,a,b,c\nx,1,2,3\nx,u,v,w\n",
    ],
    ids=["numbers", "mixed lines", "texts", "few columns", "names repeat"],
)
def test_tables_that_are_upright(tmp_path, text):
    assert len(read_table(file(tmp_path, text)).frame) == 2


def test_a_vector_says_what_it_must_become(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(30.0))
    for source in (tmp_path / "a.npy", np.arange(30.0)):
        with pytest.raises(InputError, match=r"one row per example; got shape \(30,\)\. Reshape .* to \(n, 1\)"):
            sa.fit(source)


# --- Wide tables


def test_wide_tables_take_few_calls_per_column(tmp_path):
    """Time depends on the machine, and the number of calls hardly does: 1,600 per column, once 4,400."""
    rng, n_columns = np.random.default_rng(0), 200
    cells = (rng.normal(size=30).round(3) if j % 2 else rng.choice(["a", "b", "c"], 30) for j in range(n_columns))
    pd.DataFrame({f"c{j}": column for j, column in enumerate(cells)}).to_csv(tmp_path / "t.csv", index=False)

    def there_and_back():
        codec = TableCodec.read(tmp_path / "t.csv")
        assert codec.same(codec.decode(codec.encode(codec.stored), np.arange(30)), codec.stored).all()

    there_and_back()  # imports
    profile = cProfile.Profile()
    profile.runcall(there_and_back)
    assert pstats.Stats(profile).total_calls < 2500 * n_columns


@pytest.mark.parametrize("encoding", ["utf-32", "utf-16"])
def test_a_file_is_read_and_written_in_its_encoding(tmp_path, encoding):
    text = "name,x\n" + "".join(f"{'äß'[i % 2]},{i * 7 % 11}.5\n" for i in range(40))
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    sa.fit(tmp_path / "a.csv").write(tmp_path / "new.csv", 30, rng=0)
    new = (tmp_path / "new.csv").read_bytes().decode(encoding).splitlines()
    assert new[0] == "name,x"
    assert len(new) == 31
    assert {line[:2] for line in new[1:]} <= {"ä,", "ß,"}


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_transposed_table_is_noticed_and_read_with_the_remedy(tmp_path, suffix):
    rng = np.random.default_rng(0)
    upright = pd.DataFrame({"age": rng.integers(20, 80, 30), "weight": rng.normal(70, 9, 30).round(1)})
    upright.insert(0, "who", [f"p{i}" for i in range(30)])
    path, sep = tmp_path / f"a{suffix}", "," if suffix == ".csv" else "\t"
    upright.astype(str).set_index("who").T.to_csv(path, sep=sep, index_label="what")
    assert any("may be transposed" in note and "pass transpose=True" in note for note in sa.fit(path).notes)
    synth = sa.fit(path, transpose=True)
    pd.testing.assert_frame_equal(synth.codec.stored, upright.rename(columns={"who": "what"}).astype({"what": "str"}))
    assert not any("transposed" in note for note in synth.notes)
    assert synth.refit(np.arange(20)).codec.K == 20
    scales = {
        "height": rng.normal(1.7, 0.1, 30),
        "potassium": rng.normal(4.2, 0.2, 30),
        "sodium": rng.normal(140, 3, 30),
    }
    decimals = pd.DataFrame(scales, index=pd.Index(upright["who"])).round(1)
    decimals.T.to_csv(path, sep=sep)
    note = "the table may be transposed: all numbers of line 2 are below those of line 4"
    assert any(note in said for said in sa.fit(path).notes)
    for others in (decimals.iloc[:2], rng.normal(size=(4, 9)).round(2)):
        table = pd.DataFrame(others, index=None).assign(name=lambda frame: [f"p{i}" for i in range(len(frame))])
        table.set_index("name").to_csv(path, sep=sep)
        assert not any("transposed" in said for said in sa.fit(path).notes)
    upright.assign(sex=["F", "M"] * 15).set_index("who").T.to_csv(path, sep=sep)
    with pytest.raises(InputError, match=r"looks transposed.*Pass transpose=True"):
        sa.fit(path)
    frame = upright.assign(sex=["F", "M"] * 15).set_index("who").T
    with pytest.raises(InputError, match=r"mixes cells.*pass transpose=True"):
        sa.fit(frame)
    assert dict(sa.fit(frame, transpose=True).kind.display.column_types(sa.fit(frame, transpose=True).codec)) == {
        "who": "id", "age": "integer", "weight": "numeric", "sex": "category"
    }  # fmt: skip


def test_upright_tables_are_not_called_transposed(tmp_path):
    rng = np.random.default_rng(0)
    mixed = {"x": rng.normal(0, 1, 4).round(2), **{f"n{i}": rng.integers(0, 9, 4) for i in range(6)}}
    for table in (pd.DataFrame(rng.normal(0, 1, (4, 9)).round(2)), pd.DataFrame(mixed)):
        table.set_axis(list("abcd")).to_csv(tmp_path / "a.csv", index_label="name")
        assert not any("may be transposed" in note for note in sa.fit(tmp_path / "a.csv").notes)

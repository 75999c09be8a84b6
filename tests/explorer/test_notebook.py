"""The explorer in a notebook that is executed without a browser, and where there is no notebook."""

import json

import pytest

import stochattn as sa
from stochattn.kinds.options import InputError

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
DRAWN = """
import asyncio
from stochattn.explorer import session
page = session.Session(session.Explorer(synth))
page.begin()
for _ in range(600):
    await asyncio.sleep(0.1)
    if page.drawn is not None:
        break
print(page.gallery.drawn, len(page.drawn.items), page.drawn.html.count('class="new"'))
page.on_message({"id": "knob", "position": 150})
for _ in range(600):
    await asyncio.sleep(0.1)
    if page.gallery.drawn == 2:
        break
print(page.gallery.drawn, page.page.settings.knob == page.drawn.settings.knob)
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_shows_the_page(inputs):
    cells = [
        f"import stochattn as sa\nsynth = sa.fit({str(inputs['table'])!r}, generator='hopfield')\nsynth.explore()",
        DRAWN,
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    first, second = (cell["outputs"] for cell in notebook["cells"])
    shown = [output["data"] for output in first if output["output_type"] in ("display_data", "execute_result")]
    page = [data for data in shown if "application/vnd.holoviews_exec.v0+json" in data and "text/html" in data]
    assert page, [list(data) for data in shown]
    text = json.dumps(page[-1])
    assert "gallery" in text
    assert "Recall" in text
    printed = "".join(output["text"] for output in second if output["output_type"] == "stream")
    assert printed.splitlines() == ["1 12 12", "2 True"]


def test_without_a_notebook_an_error_says_where_to_go(inputs):
    with pytest.raises(
        InputError, match=r"this is not a notebook\. Call it in a notebook, or run `stochattn explore FILE`"
    ):
        sa.fit(inputs["table"], generator="hopfield").explore()

"""The page in a real browser: every control, every kind of data, its safety, its width and the keyboard."""

import shlex

import pytest
from typer.testing import CliRunner

from stochattn.cli import build_app
from stochattn.explorer.state import Explorer

from .browsing import BROWSER, FIND_ALL, FLAGS, REASON, Page
from .explored import explorer_of
from .serving import Pages

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason=REASON),
    pytest.mark.slow,
    pytest.mark.xdist_group("explorer in a browser"),
]
APP = build_app()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages():
    found = Pages()
    yield found
    found.close()


@pytest.fixture(scope="module")
def servers(pages, explorers):
    return {kind: pages.serve(explorer, f"{kind} items") for kind, explorer in explorers.items()}


@pytest.fixture
def open_page(browser):
    """Opens pages of a server, and sees that nothing went wrong on them."""
    opened = []

    def open_one(server, width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        page = Page(context.new_page(), server)
        opened.append((context, page))
        return page

    yield open_one
    problems = [problem for _, page in opened for problem in page.problems]
    hosts = {url.split("/")[2] for _, page in opened for url in page.requests if url.startswith(("http", "ws"))}
    allowed = {f"127.0.0.1:{page.server.port}" for _, page in opened}
    for context, _ in opened:
        context.close()
    assert problems == []
    assert hosts <= allowed  # nothing comes from another host


def drag(page, selector, first, last):
    """Drag from one point of an element to another, both as shares of its size."""
    page[selector].scroll_into_view_if_needed()
    box = page[selector].bounding_box()
    (x0, y0), (x1, y1) = ((box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (first, last))
    page.page.mouse.move(x0, y0)
    page.page.mouse.down()
    page.page.mouse.move((x0 + x1) / 2, (y0 + y1) / 2)
    page.page.mouse.move(x1, y1)
    page.page.mouse.up()


def condition_letters(page):
    page[".letter"].nth(4).click()


def condition_rectangle(page):
    page["select[aria-label*='as in']"].select_option("0")
    drag(page, ".canvas", (0.05, 0.15), (0.75, 0.55))


def condition_cells(page):
    page["#condition\\:age-low"].fill("30")
    page["#condition\\:age-low"].press("Tab")


def condition_days(page):
    page["[data-step='2']"].evaluate("one => { one.value = -60; one.dispatchEvent(new Event('change')); }")


def condition_stretch(page):
    drag(page, ".canvas", (0.1, 0.5), (0.4, 0.5))


CONDITIONS = {
    "protein": (condition_letters, "synth.condition({1: "),
    "image": (condition_rectangle, "'lying/0.png'"),
    "table": (condition_cells, "sa.Range(ge=30)"),
    "returns": (condition_days, "('T0', 2): -"),
    "signals": (condition_stretch, "): '1'})"),
}


def test_one_path_through_each_kind(open_page, servers, kind, tmp_path, monkeypatch):
    """Turn the knob, condition, leave out a stored item, and save what is shown."""
    monkeypatch.chdir(tmp_path)
    page = open_page(servers[kind])
    condition, in_code = CONDITIONS[kind]
    with page.changes():
        page.slide("#knob", 120)
    with page.changes():
        condition(page)
    page.wait_for_text("#python", in_code)
    page["details[data-section='stored-section'] > summary"].click()
    page[".stored-list .chip"].nth(0).click()
    page.wait_for_text("#python", "if k not in {0}")
    with page.changes():
        page["#n"].fill("5")
        page["#n"].press("Enter")
    page.wait_for_text("#command", "-n 5")
    name = page["#out"].input_value()
    page["#save"].click()
    page.wait_for_text("[data-field='save'] .hint", "Saved 5 to ")
    saved = {one.relative_to(tmp_path): one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    (tmp_path / "typed").mkdir()
    monkeypatch.chdir(tmp_path / "typed")
    result = CliRunner().invoke(APP, shlex.split(page.text("#command"))[1:])
    assert result.exit_code == 0, result.output
    typed = {
        one.relative_to(tmp_path / "typed"): one.read_bytes()
        for one in (tmp_path / "typed").rglob("*")
        if one.is_file()
    }
    assert saved == typed
    assert any(str(one).startswith(name) for one in saved)


def test_every_control_of_the_first_form(open_page, servers):
    page = open_page(servers["table"])
    assert page[".gallery tr.new"].count() == 12
    with page.changes():
        page.slide("#knob", 60)
    value = page.text("[data-field='knob'] .value")
    page["[data-mark='natural']"].wait_for()
    with page.changes():
        page["[data-mark='natural']"].click()
    page.wait_for_text("[data-field='knob'] .value", "natural")
    assert page.text("[data-field='knob'] .value") != value
    with page.changes():
        page["#novelty"].fill("0.1")
        page["#novelty"].press("Tab")
    page.wait_for_text("#python", "novelty=0.1")
    with page.changes():
        page["#seed"].fill("41")
        page["#seed"].press("Tab")
    page.wait_for_text("#python", "rng=41")
    with page.changes():
        page["#new-seed"].click()
    with page.changes():
        page["#n"].fill("7")
        page["#n"].press("Tab")
    assert page[".gallery tr.new"].count() == 7
    with page.changes():
        page["#generator"].select_option("covariance")
    page.wait_for_text("#python", "rng=")
    assert "beta" not in page.text("[data-field='knob'] .value")
    with page.changes():
        page.slide("#knob", 30)
    page.wait_for_text("#python", "width=(")


def test_marks_are_where_the_rules_are(open_page, servers):
    page = open_page(servers["protein"])
    page["[data-mark]"].nth(2).wait_for()
    names = {one.get_attribute("data-mark") for one in page["[data-mark]"].all()}
    assert names == {"natural", "leave-one-out", "inflection", "knee"}
    value, places = float(page["#knob"].input_value()), {}
    for one in page["[data-mark]"].all():
        places[one.get_attribute("data-mark")] = float(one.evaluate("one => parseFloat(one.style.left)"))
    assert places["natural"] == pytest.approx(value / 2, abs=0.5)  # a page begins with this rule; 200 steps
    assert places["natural"] < places["inflection"]  # recall is on the left


def test_conditions_of_each_type_of_column(open_page, servers):
    page = open_page(servers["table"])
    with page.changes():
        page["[data-field='condition:group'] .chip"].nth(2).click()
    page.wait_for_text("#python", "'group': 'red'")
    with page.changes():
        page["[data-field='condition:group'] .chip"].nth(0).click()
    page.wait_for_text("#python", "'group': {'blue', 'red'}")
    with page.changes():
        page["#condition\\:seen-low"].fill("2021-05-01")
        page["#condition\\:seen-low"].press("Tab")
    page.wait_for_text("#python", "'seen': sa.Range(ge='2021-05-01')")
    with page.changes():
        page["#typed"].fill("height>=175")
        page["#typed"].press("Enter")
    page.wait_for_text("#python", "'height': sa.Range(ge=175)")
    with page.changes():
        page["[data-field='typed'] .chip"].click()
    page.wait_until("return findAll('#python')[0].textContent.includes('height')", False)
    assert "seen>=2021-05-01" in page.text("#command")


def test_an_impossible_condition_is_an_error_beside_its_control(open_page, servers):
    page = open_page(servers["table"])
    before = page.html
    page["#condition\\:age-low"].fill("900")
    page["#condition\\:age-low"].press("Tab")
    problem = "[data-field='condition:age'] .problem"
    page.wait_for_text(problem, "age")
    assert page.html == before  # the last good gallery stays
    assert "900" not in page.text("#command")
    page["#seed"].fill("5")
    page["#seed"].press("Tab")
    page.page.wait_for_timeout(300)
    assert page[problem].is_visible()  # it is still wrong, and nothing else is
    assert not page["[data-field='seed'] .problem"].is_visible()
    with page.changes():
        page["#condition\\:age-low"].fill("30")
        page["#condition\\:age-low"].press("Tab")
    assert not page[problem].is_visible()
    page["#n"].fill("0")
    page["#n"].press("Tab")
    page.wait_for_text("[data-field='n'] .problem", "n must be")


def test_weights_of_stored_items(open_page, servers):
    page = open_page(servers["signals"])
    page["details[data-section='stored-section'] > summary"].click()
    with page.changes():
        page["[data-index='2'] button[aria-label*='twice']"].click()
    page.wait_for_text("#python", "synth.weight(2.0, [2])")
    assert page.text("[data-index='2'] .ratio") == "×2"
    with page.changes():
        page["[data-index='5'] .chip"].click()
    page.wait_for_text("#command", "--subset")
    with page.changes():
        page["[data-field='stored'] button:has-text('All alike')"].click()
    page["[aria-label*='search']"].fill("12")
    assert page[".stored-list li:visible"].count() == 1


def test_selecting_links_gallery_map_and_attention(open_page, servers):
    page = open_page(servers["image"])
    page[".gallery .item"].nth(1).click()
    page[".bars li"].first.wait_for()
    assert page[".gallery .item.selected"].count() == 1
    bars = page[".bars li"].all_inner_texts()
    assert len(bars) == 10
    page["details[data-section='stored-section'] > summary"].click()
    nearest = page[".stored-list .here"].get_attribute("data-index")
    script = """
      const sources = Bokeh.documents.flatMap((one) => [...one._all_models.values()]).filter((one) =>
        one.type === 'ColumnDataSource' && one.data.id && one.selected.indices.length);
      return sources.map((one) => one.selected.indices[0]).sort((a, b) => a - b);
    """
    page.wait_until(script, sorted([1, int(nearest)]))
    page[".gallery .item"].nth(1).click()
    page[".bars"].wait_for(state="detached")


def test_a_chain_is_played_step_by_step(open_page, servers):
    page = open_page(servers["protein"])
    assert page["#step"].is_disabled()
    page["#algorithm"].select_option("mala")
    page.wait_for_text("[data-field='step'] .hint", "step 0, energy")
    page["#walk"].click()
    page["#step-play"].click()
    page.page.wait_for_function(  # a busy machine may not see each of the steps
        f"() => {{ {FIND_ALL} return findAll(\"[data-field='step'] .hint\").some("
        "(one) => Number(/step (\\d+)/.exec(one.textContent)?.[1]) >= 12) }"
    )
    page["#step-play"].click()
    assert "accepted" in page.text("[data-field='step'] .hint")
    page.slide("#step", 300)
    page.wait_for_text("[data-field='step'] .hint", "step 300")
    assert "New 300" in page.page.get_by_role("region", name="State of the chain").inner_text()


def test_a_verdict_can_be_cancelled_while_the_page_stays_live(open_page, servers):
    page = open_page(servers["table"])
    page["#verdict"].click()
    page.wait_for_text("#verdict", "Cancel")
    with page.changes():
        page["#new-seed"].click()
    page["#verdict"].click()
    page.wait_for_text("#verdict", "Evaluate")
    page.page.get_by_text("Cancelled.").wait_for()


def test_a_script_in_a_name_stays_text(open_page, pages, tmp_path):
    bad = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>"
    rows = "\n".join(f'{i * 0.61 % 5:.2f},"<b>{"xy"[i % 2]}</b>",{i * 0.37 % 7:.2f}' for i in range(30))
    source = tmp_path / "<img src=x onerror=window.pwned=1>.csv"
    source.write_text(f'"{bad}",b,c\n{rows}\n')
    server = pages.serve(explorer_of(source, generator="hopfield"), source.name)
    page = open_page(server)
    page["details[data-section='stored-section'] > summary"].click()
    page[".gallery tr.new"].first.click()
    page[".bars li"].first.wait_for()
    assert page.evaluate("return window.pwned ?? null") is None
    assert page.page.locator("h1").inner_text() == source.name
    assert bad in page[".field label"].all_inner_texts()
    assert page.evaluate("return findAll('.gallery b').filter(one => one.textContent === 'x').length") == 0


def test_the_page_fits_its_width(open_page, servers, kind):
    page = open_page(servers[kind], width=360)
    for width in (360, 800, 1280, 2560):
        page.page.set_viewport_size({"width": width, "height": 900})
        page.page.wait_for_timeout(200)
        assert page.evaluate("return document.documentElement.scrollWidth") <= width
        form, gallery = page["#generator"].bounding_box(), page.gallery.bounding_box()
        if width >= 1000:
            assert form["x"] + form["width"] <= gallery["x"]  # side by side
            assert gallery["width"] > width / 2
        else:
            assert form["y"] + form["height"] <= gallery["y"]  # one below the other
            assert gallery["width"] > 0.85 * width


def test_nothing_jumps_while_items_are_drawn(open_page, servers):
    page = open_page(servers["image"])
    page["[data-mark]"].first.wait_for()
    script = """
      const top = (one) => Math.round(one.getBoundingClientRect().top);
      const places = () => findAll('.gallery[data-drawn], #new-seed, h2').map(top);
      const first = JSON.stringify(places());
      window.jumps = 0;
      window.timer = setInterval(() => { if (JSON.stringify(places()) !== first) window.jumps += 1; }, 10);
    """
    page.evaluate(script)
    for position in (40, 90, 140):
        with page.changes():
            page.slide("#knob", position)
    with page.changes():
        page["#new-seed"].click()
    assert page.evaluate("clearInterval(window.timer); return window.jumps") == 0


def test_the_keyboard_is_enough(open_page, servers):
    page = open_page(servers["signals"])
    keyboard = page.page.keyboard
    inside = "while (one.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;"
    focused = f"let one = document.activeElement; {inside} return one"

    def tab_to(condition):
        for _ in range(60):
            keyboard.press("Tab")
            if page.evaluate(f"const own = (() => {{ {focused} }})(); return {condition}"):
                return
        raise AssertionError(condition)

    tab_to("own.id === 'generator'")
    tab_to("own.id === 'knob'")
    with page.changes():
        keyboard.press("ArrowRight")
        keyboard.press("ArrowRight")
    tab_to("own.id === 'new-seed'")
    with page.changes():
        keyboard.press("Enter")
    tab_to("own.classList.contains('item')")
    keyboard.press("ArrowRight")
    keyboard.press("Enter")
    page[".item.selected"].wait_for()
    assert page[".gallery .item"].nth(1).get_attribute("aria-pressed") == "true"
    tab_to("own.id === 'walk'")
    keyboard.press("Space")
    page.wait_for_text("[data-field='step'] .hint", "step 0")
    tab_to("own.id === 'save'")


def test_controls_have_names_for_screen_readers(open_page, servers, kind):
    page = open_page(servers[kind])
    script = """
      const label = (one) => one.getRootNode().querySelector(`label[for="${one.id}"]`);
      const labelled = (one) => one.getRootNode().getElementById?.(one.getAttribute('aria-labelledby'));
      const all = findAll('input, select, button, summary, [role=region], [role=group]');
      return all.filter((one) => one.checkVisibility()
        && !(one.getAttribute('aria-label') || one.textContent.trim() || (one.id && label(one)) || labelled(one)))
        .map((one) => one.outerHTML.slice(0, 120));
    """
    assert page.evaluate(script) == []
    assert page.page.locator("html").get_attribute("lang") == "en"
    page.wait_for_text("p[role=status]", "new")  # not any status: each <output> of the form is one, too


def test_texts_are_readable_in_light_and_dark(open_page, servers):
    script = """
      const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
      const linear = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
      const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
      const behind = (one) => {
        for (let at = one; at; at = at.parentElement ?? at.getRootNode().host) {
          const colour = rgb(getComputedStyle(at).backgroundColor);
          if (colour.length < 4 || colour[3] > 0.9) return colour;
        }
        return rgb(getComputedStyle(document.body).backgroundColor);
      };
      const contrast = (one) => {
        const [high, low] = [rgb(getComputedStyle(one).color), behind(one)].map(luminance).sort((a, b) => b - a);
        return (high + 0.05) / (low + 0.05);
      };
      const texts = findAll('label, input:not([type=range]), select, button, h1, h2, p, pre, td, th, summary, h4')
        .filter((one) => one.checkVisibility() && !one.disabled && !one.classList.contains('letter'));
      return [behind(document.body), texts.filter((one) => contrast(one) < 4).map((one) => one.outerHTML.slice(0, 90))];
    """
    backgrounds = []
    for scheme in ("light", "dark"):
        page = open_page(servers["table"], color_scheme=scheme)
        background, faint = page.evaluate(script)
        assert faint == []
        backgrounds.append(sum(background[:3]) / 3)
    assert backgrounds[0] > 200 > 60 > backgrounds[1]


def test_two_pages_do_not_disturb_each_other(open_page, servers):
    first, second = (open_page(servers["returns"]) for _ in range(2))
    before = second.html
    with first.changes():
        first.slide("#knob", 150)
    with first.changes():
        first["#n"].fill("3")
        first["#n"].press("Tab")
    assert second.html == before
    assert second["#n"].input_value() == "12"
    with second.changes():
        second["#seed"].fill("8")
        second["#seed"].press("Tab")
    assert first["#seed"].input_value() == "0"
    assert first[".gallery .item"].count() == 3


def test_a_page_that_is_closed_while_it_draws_leaves_others_alone(open_page, servers):
    page = open_page(servers["table"])
    page["#generator"].select_option("covariance")
    page.page.close()
    again = open_page(servers["table"])
    with again.changes():
        again["#new-seed"].click()


def test_a_synthesizer_without_a_file_has_code_and_no_command(open_page, pages):
    import numpy as np

    import stochattn as sa

    rows = np.random.default_rng(0).normal(size=(30, 3))
    page = open_page(pages.serve(Explorer(sa.fit(rows, generator="hopfield"))))
    page.wait_for_text("#python", "new = synth.sample(12, rng=0)")
    assert page["#command"].count() == 0


MAP_SOURCE = """
  const views = Object.values(Bokeh.index).flatMap((one) => [...one.owner.query((view) => view.model.name === 'map')]);
  const [map] = views, stored = map.model.renderers.map((one) => one.data_source).find((one) => one.data.marker);
"""


def stored_point(page, k):
    """The place of stored item k on the map, in pixels of the page."""
    script = """
      const box = map.el.getBoundingClientRect(), [x, y] = [stored.data.x[given[0]], stored.data.y[given[0]]];
      return [box.x + map.frame.x_scale.compute(x), box.y + map.frame.y_scale.compute(y)];
    """
    page.page.get_by_text("Rings are stored").scroll_into_view_if_needed()
    return page.evaluate(MAP_SOURCE + script, k)


LEFT_OUT_ON_THE_MAP = MAP_SOURCE + "return [...stored.data.marker].flatMap((one, k) => one === 'x' ? [k] : [])"


def test_a_stored_example_is_left_out_where_it_is_seen_on_the_map(open_page, servers):
    page = open_page(servers["signals"])
    page.wait_for_text("p", "Rings are stored")
    assert page["#selected"].is_disabled()
    assert not page["#selected"].is_checked()
    page.page.mouse.click(*stored_point(page, 4))
    page.wait_for_text(".selected-name", "5 counts")
    assert page["#selected"].is_checked()
    with page.changes():
        page["#selected"].click()
    page.wait_for_text(".selected-row .ratio", "off")
    assert not page["#selected"].is_checked()
    page.wait_for_text("#python", "if k not in {4}")
    page.wait_until(LEFT_OUT_ON_THE_MAP, [4])
    with page.changes():
        page["#selected"].click()
    page.wait_for_text(".selected-row .ratio", "×1")
    page.wait_until(LEFT_OUT_ON_THE_MAP, [])
    with page.changes():
        page["[aria-label='The selected example counts twice as often']"].click()
    page.wait_for_text("#python", "synth.weight(2.0, [4])")
    with page.changes():
        page["[aria-label='The selected example counts half as often']"].click()
    page.wait_for_text(".selected-row .ratio", "×1")


def test_the_keyboard_leaves_out_what_is_nearest_to_a_new_example(open_page, servers):
    page = open_page(servers["image"])
    page[".gallery .item"].nth(1).press("Enter")
    page.wait_for_text(".selected-name", "counts")
    name = page.text(".selected-name")
    with page.changes():
        page["#selected"].press("Space")
    page.wait_for_text(".selected-row .ratio", "off")
    page.wait_until(f"const left = (() => {{ {LEFT_OUT_ON_THE_MAP} }})(); return left.length", 1)
    assert page.text(".selected-name") == name  # it stays selected, here and on the map
    page.wait_until(MAP_SOURCE + "return [...stored.selected.indices]", page.evaluate(LEFT_OUT_ON_THE_MAP))
    with page.changes():
        page["#selected"].press("Space")
    page.wait_for_text(".selected-row .ratio", "×1")

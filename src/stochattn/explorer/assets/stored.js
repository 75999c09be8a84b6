// The stored items as a list. A click leaves one out or takes it back; the buttons beside it change how often it counts.
controls.stored = (field, send) => {
  const rows = field.ids.map((id, i) => {
    const ratio = make("span", { class: "ratio" });
    const toggle = make("button", { type: "button", class: "chip", "aria-pressed": "true", onclick: () => send({ index: i, action: "toggle" }) }, id);
    const less = make("button", { type: "button", class: "quiet", "aria-label": `${id} counts half as often`,
      onclick: () => send({ index: i, action: "less" }) }, "−");
    const more = make("button", { type: "button", class: "quiet", "aria-label": `${id} counts twice as often`,
      onclick: () => send({ index: i, action: "more" }) }, "+");
    return { id, toggle, ratio, element: make("li", { "data-index": i }, toggle, less, ratio, more) };
  });
  const search = make("input", { type: "search", placeholder: "Search", "aria-label": `${field.label}: search`, oninput: () => {
    const wanted = search.value.toLowerCase();
    rows.forEach((one) => { one.element.hidden = !one.id.toLowerCase().includes(wanted); });
  } });
  const reset = make("button", { type: "button", class: "quiet", onclick: () => send({ action: "reset" }) }, "All alike");
  return {
    parts: [make("div", { class: "head" }, search, reset), make("ul", { class: "stored-list" }, ...rows.map((one) => one.element))],
    update: (state) => {
      const ratios = new Map(state.ratios ?? []);
      rows.forEach((one, i) => {
        const ratio = ratios.get(i) ?? 1;
        one.toggle.setAttribute("aria-pressed", String(ratio > 0));
        one.ratio.textContent = ratio > 0 ? `×${Number(ratio.toPrecision(3))}` : "off";
        one.element.classList.toggle("off", ratio === 0);
        one.element.classList.toggle("here", i === state.selected);
      });
    },
  };
};

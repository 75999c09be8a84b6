// The stored items as a list. A click leaves one out or takes it back; the buttons beside it change how often it counts.
const ratioText = (ratio) => ratio > 0 ? `×${Number(ratio.toPrecision(3))}` : "off";

// The one that is selected on the map, with the same actions. All of it keeps its place, so that nothing jumps.
controls.selected = (field, send) => {
  const name = make("span", { class: "selected-name" }), ratio = make("span", { class: "ratio" });
  const counts = make("input", { type: "checkbox", id: field.id, onchange: () => send({ action: "toggle" }) });
  const button = (action, label, sign) => make("button", { type: "button", class: "quiet", "aria-label": label, onclick: () => send({ action }) }, sign);
  const less = button("less", "The selected example counts half as often", "−");
  const more = button("more", "The selected example counts twice as often", "+");
  return {
    parts: [make("div", { class: "selected-row", role: "group", "aria-label": field.label },
      make("label", { for: field.id }, counts, name), less, ratio, more)],
    update: (state) => {
      for (const one of [counts, less, more]) one.disabled = Boolean(state.disabled);
      counts.checked = !state.disabled && state.ratio > 0;
      name.textContent = state.disabled ? "Nothing stored is selected" : `${state.name} counts`;
      ratio.textContent = state.disabled ? "" : ratioText(state.ratio);
    },
  };
};

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
        one.ratio.textContent = ratioText(ratio);
        one.element.classList.toggle("off", ratio === 0);
        one.element.classList.toggle("here", i === state.selected);
      });
    },
  };
};

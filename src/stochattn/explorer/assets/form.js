// A form drawn from a list of fields. `fields` says what there is and changes rarely; `state` has what each shows now.
// Every change is sent as {id, ...}. Texts from files are set as textContent only, never as HTML.
const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};

const svg = (name, attributes = {}) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};

const unlessFocused = (input, value) => {
  if (input.getRootNode().activeElement !== input) input.value = value ?? "";
};

// Sends at most one change at a time per frame, and the last one always.
const perFrame = (send) => {
  let waiting = null;
  return (data) => {
    if (waiting === null) requestAnimationFrame(() => { const last = waiting; waiting = null; send(last); });
    waiting = data;
  };
};

const controls = {};

controls.slider = (field, send) => {
  const input = make("input", { type: "range", id: field.id, min: 0, max: field.steps, step: 1 });
  const shown = make("output", { for: field.id, class: "value" });
  const marks = make("div", { class: "marks" });
  const sendSoon = perFrame((position) => send({ position }));
  input.addEventListener("input", () => sendSoon(Number(input.value)));
  const ends = make("div", { class: "ends" }, make("span", {}, "recall"), make("span", {}, "generation"));
  let known = "";
  return {
    parts: [make("div", { class: "head" }, make("label", { for: field.id }, field.label), shown), ends, input, marks],
    update: (state) => {
      input.disabled = Boolean(state.disabled);
      input.step = state.step ?? 1;
      marks.hidden = !state.has_marks;  // a place for those that are not found yet: nothing moves when they come
      if (state.position !== undefined && state.position !== null) unlessFocusedSlider(input, state.position);
      input.setAttribute("aria-valuetext", state.text ?? "");
      shown.textContent = state.text ?? "";
      const now = JSON.stringify(state.marks ?? []);
      if (now === known) return;
      known = now;
      marks.replaceChildren(...(state.marks ?? []).map((mark) =>
        make("button", {
          type: "button", class: "mark", style: `left:${(100 * mark.position) / field.steps}%`, title: mark.help,
          "data-mark": mark.name, onclick: () => send({ mark: mark.name }),
        }, mark.label)));
      spread(marks);
    },
  };
};

// Marks that would cover each other go to further lines.
const spread = (marks) => {
  const ends = [-Infinity, -Infinity, -Infinity];
  for (const mark of [...marks.children].sort((a, b) => parseFloat(a.style.left) - parseFloat(b.style.left))) {
    const at = parseFloat(mark.style.left), half = 1.6 * mark.textContent.length;
    const free = ends.findIndex((end) => at - half > end), line = free < 0 ? ends.indexOf(Math.min(...ends)) : free;
    ends[line] = at + half;
    mark.classList.add(`r${line}`);
  }
  marks.classList.toggle("tall", Number.isFinite(ends[2]));
};

// The position that the server answers belongs to an earlier one while the user drags.
const unlessFocusedSlider = (input, position) => {
  if (!input.matches(":active")) input.value = position;
};

controls.number = (field, send) => {
  const input = make("input", {
    type: "number", id: field.id, min: field.min, max: field.max, step: field.step ?? "any", placeholder: field.placeholder,
    inputmode: "decimal", onchange: () => send({ value: input.value === "" ? null : Number(input.value) }),
  });
  return {
    parts: [make("label", { for: field.id }, field.label), input],
    update: (state) => { unlessFocused(input, state.value); input.disabled = Boolean(state.disabled); },
  };
};

controls.select = (field, send) => {
  const input = make("select", { id: field.id, onchange: () => send({ value: input.value }) },
    ...field.options.map((one) => make("option", { value: one.value }, one.label)));
  return {
    parts: [make("label", { for: field.id }, field.label), input],
    update: (state) => { input.value = state.value ?? ""; input.disabled = Boolean(state.disabled); },
  };
};

controls.text = (field, send) => {
  const input = make("input", {
    type: "text", id: field.id, placeholder: field.placeholder, spellcheck: "false", autocomplete: "off",
    onchange: () => send({ value: input.value }),
  });
  return { parts: [make("label", { for: field.id }, field.label), input], update: (state) => unlessFocused(input, state.value) };
};

controls.texts = (field, send) => {
  let texts = [];
  const add = () => { if (input.value.trim()) { send({ value: [...texts, input.value.trim()] }); input.value = ""; } };
  const input = make("input", { type: "text", id: field.id, spellcheck: "false", autocomplete: "off", onkeydown: (event) => {
    if (event.key === "Enter") { event.preventDefault(); add(); }
  } });
  const chips = make("div", { class: "chips" });
  return {
    parts: [make("label", { for: field.id }, field.label),
      make("div", { class: "pair" }, input, make("button", { type: "button", onclick: add }, "Add")), chips],
    update: (state) => {
      texts = state.value ?? [];
      chips.replaceChildren(...texts.map((one, i) => make("button", { type: "button", class: "chip", "aria-pressed": "true",
        title: "Remove", onclick: () => send({ value: texts.filter((_, j) => j !== i) }) }, `${one} ×`)));
    },
  };
};

controls.button = (field, send) => {
  const input = make("button", { type: "button", id: field.id, class: field.primary ? "primary" : "", onclick: () => send({}) },
    field.label);
  return { parts: [input], update: (state) => {
    input.disabled = Boolean(state.disabled);
    if (state.label) input.textContent = state.label;
  } };
};

controls.code = (field) => {
  const shown = make("pre", { id: field.id, tabindex: 0, role: "region", "aria-label": field.label });
  const copy = make("button", { type: "button", class: "quiet", onclick: async () => {
    try { await navigator.clipboard.writeText(shown.textContent); } catch { select(shown); }
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1200);
  } }, "Copy");
  const select = (element) => getSelection().selectAllChildren(element);
  return {
    parts: [make("div", { class: "head" }, make("label", {}, field.label), copy), shown],
    update: (state) => { shown.textContent = state.value ?? ""; },
  };
};

const fieldOf = (field, model) => {
  const send = (data) => model.send_msg({ id: field.id, ...data });
  const control = controls[field.type](field, send);
  const error = make("p", { class: "problem", role: "alert", id: `${field.id}-error` });
  const note = make("p", { class: "hint" }, field.hint ?? "");
  const element = make("div", { class: `field ${field.type} ${field.width ?? ""}`, "data-field": field.id }, ...control.parts,
    field.hint === undefined ? null : note, error);
  return { id: field.id, element, update: (state) => {
    control.update(state);
    error.textContent = state.error ?? "";
    element.classList.toggle("wrong", Boolean(state.error));
    if (field.hint !== undefined) note.textContent = state.hint ?? field.hint;
  } };
};

export function render({ model }) {
  const root = make("form", { class: model.spread ? "form spread" : "form", "aria-label": model.label, onsubmit: (event) => event.preventDefault() });
  let shown = [];
  const build = () => {
    shown = [];
    let place = make("div", { class: "fields" });  // of fields before the first section
    const sections = [place];
    for (const field of model.fields) {
      if (field.type === "section") {
        const inside = make("div", { class: "fields" });
        place = inside;
        sections.push(field.folded === undefined ? make("section", {}, make("h2", {}, field.label), inside)
          : make("details", { open: !field.folded && innerWidth > 900, "data-section": field.id }, make("summary", {}, field.label), inside));
        continue;
      }
      const one = fieldOf(field, model);
      shown.push(one);
      place.append(one.element);
    }
    root.replaceChildren(...sections.filter((one) => one.hasChildNodes()));
    update();
  };
  const update = () => shown.forEach((one) => one.update(model.state[one.id] ?? {}));
  model.on("fields", build);
  model.on("state", update);
  build();
  return root;
}

// Controls that condition new items. Each sends {choice}, an object that is empty where nothing is conditioned.
const clearButton = (clear) => make("button", { type: "button", class: "quiet", onclick: clear }, "Clear");

controls.range = (field, send) => {
  const type = { date: "date", text: "text" }[field.kind] || "number";
  const brief = (value) => type === "number" && Number.isFinite(Number(value)) ? String(Number(Number(value).toPrecision(5))) : value;
  const end = (which, label) => make("input", {
    type, step: field.is_whole ? 1 : "any", placeholder: brief(field[which]), "aria-label": `${field.label}: ${label}`,
    id: `${field.id}-${which}`,
    onchange: () => send({ choice: chosen() }),
  });
  const low = end("low", "at least"), high = end("high", "at most");
  const chosen = () => Object.fromEntries(
    [["low", low.value], ["high", high.value]].filter(([, value]) => value !== ""));
  return {
    parts: [make("div", { class: "head" }, make("label", { for: low.id }, field.label)),
      make("div", { class: "pair" }, low, make("span", { "aria-hidden": true }, "–"), high)],
    update: ({ choice }) => { unlessFocused(low, choice?.low); unlessFocused(high, choice?.high); },
  };
};

controls.choice = (field, send) => {
  let chosen = new Set();
  const buttons = field.choices.map((value) => make("button", {
    type: "button", class: "chip", "aria-pressed": "false", onclick: () => {
      chosen.has(value) ? chosen.delete(value) : chosen.add(value);
      send({ choice: chosen.size ? { values: field.choices.filter((one) => chosen.has(one)) } : {} });
    },
  }, value));
  return {
    parts: [make("label", { id: `${field.id}-label` }, field.label),
      make("div", { class: "chips", role: "group", "aria-labelledby": `${field.id}-label` }, ...buttons)],
    update: ({ choice }) => {
      chosen = new Set(choice?.values ?? []);
      buttons.forEach((one, i) => one.setAttribute("aria-pressed", String(chosen.has(field.choices[i]))));
    },
  };
};

controls.letters = (field, send) => {
  let choice = {};
  const set = (place, letter) => {
    choice = { ...choice };
    if (!letter || choice[place] === letter) delete choice[place]; else choice[place] = letter;
    send({ choice });
  };
  const columns = field.places.map((place, i) => {
    const letters = field.letters[i].map(([letter, share]) => make("button", {
      type: "button", class: `letter l-${letter}`, tabindex: -1, "data-letter": letter,
      style: `font-size:${(0.5 + 1.3 * Math.sqrt(share * (0.15 + 0.85 * field.heights[i]))).toFixed(2)}rem`,
      "aria-label": `${place} ${letter}, ${Math.round(100 * share)} %`, onclick: () => set(place, letter),
    }, letter));
    const column = make("div", { class: "column", "data-place": place }, ...letters, make("span", { class: "place" }, place));
    return { place, column, letters };
  });
  const logo = make("div", { class: "logo", role: "group", "aria-label": `${field.label}: a logo; click a letter`, tabindex: 0 },
    ...columns.map((one) => one.column));
  const place = make("select", { "aria-label": `${field.label}: place` }, ...field.places.map((one) => make("option", { value: one }, one)));
  const letter = make("select", { "aria-label": `${field.label}: letter` },
    ...field.alphabet.map((one) => make("option", { value: one }, one)));
  const add = make("button", { type: "button", onclick: () => { delete choice[place.value]; set(place.value, letter.value); } }, "Set");
  const shown = make("div", { class: "chips" });
  return {
    parts: [make("div", { class: "head" }, make("label", {}, field.label), clearButton(() => send({ choice: {} }))),
      logo, make("div", { class: "pair" }, place, letter, add), shown],
    update: (state) => {
      choice = state.choice ?? {};
      for (const one of columns) {
        one.column.classList.toggle("set", one.place in choice);
        one.letters.forEach((button) => button.setAttribute("aria-pressed", String(choice[one.place] === button.dataset.letter)));
      }
      shown.replaceChildren(...Object.entries(choice).map(([at, value]) => make("button", {
        type: "button", class: "chip", "aria-pressed": "true", title: "Remove", onclick: () => set(at, value),
      }, `${at} = ${value} ×`)));
    },
  };
};

const sourceSelect = (field, label, change) => make("select", { "aria-label": `${field.label}: ${label}`, onchange: change },
  ...field.ids.map((one, i) => make("option", { value: i }, one)));

const sideInput = (field, which, max, change) => make("input", {
  type: "number", min: 1, max, step: 1, placeholder: which, "aria-label": `${field.label}: ${which}`, id: `${field.id}-${which}`,
  onchange: change,
});

// A drag on an element, as two points from 0 to 1 in both directions.
const onDrag = (element, moved, done) => {
  const at = (event) => {
    const box = element.getBoundingClientRect();
    const within = (value) => Math.min(Math.max(value, 0), 0.9999);
    return [within((event.clientX - box.left) / box.width), within((event.clientY - box.top) / box.height)];
  };
  element.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    const from = at(event);
    element.setPointerCapture(event.pointerId);
    const move = (next) => moved(from, at(next));
    const up = (last) => {
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", up);
      moved(from, at(last));
      done();
    };
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", up);
  });
};

controls.rectangle = (field, send) => {
  const sides = {};
  const given = () => Object.values(sides).every((one) => one.value !== "");
  const chosen = () => ({ source: Number(source.value),
    ...(given() ? Object.fromEntries(Object.entries(sides).map(([side, one]) => [side, Number(one.value)])) : {}) });
  const change = () => { if (given() || Object.values(sides).every((one) => one.value === "")) send({ choice: chosen() }); };
  for (const [side, max] of [["top", field.height], ["bottom", field.height], ["left", field.width], ["right", field.width]])
    sides[side] = sideInput(field, side, max, change);
  const source = sourceSelect(field, "as in", change);
  const image = make("img", { alt: "", draggable: "false" });
  const frame = make("div", { class: "frame" });
  const canvas = make("div", { class: "canvas" }, image, frame);
  const draw = () => {
    frame.hidden = !given();
    if (!given()) return;
    const [top, bottom, left, right] = ["top", "bottom", "left", "right"].map((side) => Number(sides[side].value));
    frame.style.cssText = `left:${(100 * (left - 1)) / field.width}%;width:${(100 * (right - left + 1)) / field.width}%;` +
      `top:${(100 * (top - 1)) / field.height}%;height:${(100 * (bottom - top + 1)) / field.height}%`;
  };
  onDrag(canvas, ([x0, y0], [x1, y1]) => {
    sides.left.value = Math.floor(Math.min(x0, x1) * field.width) + 1;
    sides.right.value = Math.floor(Math.max(x0, x1) * field.width) + 1;
    sides.top.value = Math.floor(Math.min(y0, y1) * field.height) + 1;
    sides.bottom.value = Math.floor(Math.max(y0, y1) * field.height) + 1;
    draw();
  }, () => send({ choice: chosen() }));
  return {
    parts: [make("div", { class: "head" }, make("label", {}, field.label), clearButton(() => send({ choice: {} }))),
      source, canvas, make("div", { class: "pair" }, sides.top, sides.bottom, sides.left, sides.right)],
    update: (state) => {
      const choice = state.choice ?? {};
      if (state.backdrop) image.src = state.backdrop;
      source.value = choice.source ?? 0;
      for (const [side, input] of Object.entries(sides)) unlessFocused(input, choice[side]);
      draw();
    },
  };
};

controls.stretch = (field, send) => {
  const ends = {};
  const given = () => ends.first.value !== "" && ends.last.value !== "";
  const chosen = () => ({ source: Number(source.value), ...(channel.value ? { channel: channel.value } : {}),
    ...(given() ? { first: Number(ends.first.value), last: Number(ends.last.value) } : {}) });
  const change = () => { if (given() || ends.first.value === ends.last.value) send({ choice: chosen() }); };
  for (const end of ["first", "last"]) ends[end] = sideInput(field, end, field.length, change);
  const source = sourceSelect(field, "as in", change);
  const channel = make("select", { "aria-label": `${field.label}: channel`, onchange: change, hidden: field.channels.length < 2 },
    make("option", { value: "" }, "all channels"), ...field.channels.map((one) => make("option", { value: one }, one)));
  const frame = make("div", { class: "frame" });
  const plot = svg("svg", { viewBox: "0 0 200 70", preserveAspectRatio: "none", "aria-hidden": "true" });
  const canvas = make("div", { class: "canvas line" }, plot, frame);
  const draw = () => {
    frame.hidden = !given();
    const [first, last] = [Number(ends.first.value), Number(ends.last.value)];
    frame.style.cssText = `left:${(100 * (first - 1)) / field.length}%;width:${(100 * (last - first + 1)) / field.length}%;top:0;height:100%`;
  };
  onDrag(canvas, ([x0], [x1]) => {
    ends.first.value = Math.floor(Math.min(x0, x1) * field.length) + 1;
    ends.last.value = Math.floor(Math.max(x0, x1) * field.length) + 1;
    draw();
  }, () => send({ choice: chosen() }));
  let known = "";
  return {
    parts: [make("div", { class: "head" }, make("label", {}, field.label), clearButton(() => send({ choice: {} }))),
      source, channel, canvas, make("div", { class: "pair" }, ends.first, ends.last)],
    update: (state) => {
      const choice = state.choice ?? {}, lines = state.lines ?? [], now = JSON.stringify(lines);
      if (now !== known) {
        known = now;
        const all = lines.flat(), low = Math.min(...all), high = Math.max(...all);
        plot.replaceChildren(...lines.map((line) => svg("polyline", { fill: "none", points: line.map((value, i) =>
          `${(200 * i) / Math.max(line.length - 1, 1)},${3 + (64 * (high - value)) / (high - low || 1)}`).join(" ") })));
      }
      source.value = choice.source ?? 0;
      channel.value = choice.channel ?? "";
      for (const [end, input] of Object.entries(ends)) unlessFocused(input, choice[end]);
      draw();
    },
  };
};

controls.steps = (field, send) => {
  let choice = {};
  const series = make("select", { "aria-label": `${field.label}: series`, onchange: () => show() },
    ...field.series.map((one) => make("option", { value: one }, one)));
  const set = (step, value) => {
    const own = { ...(choice[series.value] ?? {}) };
    if (value === null) delete own[step]; else own[step] = value;
    choice = { ...choice };
    if (Object.keys(own).length) choice[series.value] = own; else delete choice[series.value];
    send({ choice });
  };
  const sliders = Array.from({ length: field.n_steps }, (_, i) => {
    const shown = make("span", { class: "step-value" });
    const input = make("input", { type: "range", min: -100, max: 100, step: 1, "aria-label": `${field.label}: step ${i + 1}`,
      "data-step": i + 1,
      onchange: () => set(i + 1, Number(((Number(input.value) / 100) * extent()).toPrecision(3))) });
    input.addEventListener("dblclick", () => set(i + 1, null));
    return { input, shown, element: make("div", { class: "step" }, shown, input, make("span", { class: "place" }, String(i + 1))) };
  });
  const extent = () => field.extents[field.series.indexOf(series.value)] || 1;
  const show = () => sliders.forEach(({ input, shown, element }, i) => {
    const value = (choice[series.value] ?? {})[i + 1];
    element.classList.toggle("set", value !== undefined);
    if (!input.matches(":active")) input.value = value === undefined ? 0 : (100 * value) / extent();
    shown.textContent = value === undefined ? "" : `${(100 * value).toFixed(1)}%`;
  });
  return {
    parts: [make("div", { class: "head" }, make("label", {}, field.label), clearButton(() => send({ choice: {} }))),
      series, make("div", { class: "step-row" }, ...sliders.map((one) => one.element))],
    update: (state) => { choice = state.choice ?? {}; show(); },
  };
};

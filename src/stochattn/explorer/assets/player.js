// A slider with a button that plays it, a few steps at a time.
controls.player = (field, send) => {
  let timer = null;
  const input = make("input", { type: "range", id: field.id, min: 0, max: field.steps, step: 1 });
  const sendSoon = perFrame((position) => send({ position }));
  input.addEventListener("input", () => sendSoon(Number(input.value)));
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
  const play = make("button", { type: "button", id: `${field.id}-play`, onclick: () => {
    if (timer !== null) return stop();
    if (Number(input.value) >= field.steps) input.value = 0;
    play.textContent = "Pause";
    timer = setInterval(() => {
      input.value = Number(input.value) + 3;
      send({ position: Number(input.value) });
      if (Number(input.value) >= field.steps) stop();
    }, 120);
  } }, "Play");
  return {
    parts: [make("div", { class: "head" }, make("label", { for: field.id }, field.label)),
      make("div", { class: "pair" }, input, play)],
    update: (state) => {
      input.disabled = play.disabled = Boolean(state.disabled);
      if (timer === null && !input.matches(":active")) input.value = state.position ?? 0;
      input.setAttribute("aria-valuetext", state.hint ?? "");
    },
  };
};

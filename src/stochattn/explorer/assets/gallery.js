// The gallery: HTML that the kind of data made, in which items can be selected by mouse or keyboard.
export function render({ model }) {
  const root = document.createElement("div");
  root.className = "gallery";
  root.setAttribute("role", "region");
  root.setAttribute("aria-label", model.label);
  let cards = [];
  const mark = () => cards.forEach((card, i) => {
    card.classList.toggle("selected", i === model.selected);
    card.setAttribute("aria-pressed", String(i === model.selected));
  });
  const choose = (i) => { model.selected = i === model.selected ? -1 : i; };
  const show = () => {
    root.innerHTML = model.html;
    const grid = root.querySelector(".items");
    root.querySelectorAll("details").forEach((one) => {  // all are shown: those that a report folds come after the others
      if (grid) grid.append(...one.querySelectorAll(".item"));
      one.remove();
    });
    cards = [...root.querySelectorAll(".item, tr.new")];
    cards.forEach((card, i) => {
      card.tabIndex = 0;
      card.setAttribute("role", "button");
      card.addEventListener("click", () => choose(i));
      card.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (step !== undefined) cards[Math.min(Math.max(i + step, 0), cards.length - 1)].focus();
        else if (event.key === "Enter" || event.key === " ") choose(i);
        else return;
        event.preventDefault();
      });
    });
    root.dataset.drawn = model.drawn;
    mark();
  };
  const busy = () => {
    root.classList.toggle("busy", model.busy);
    root.setAttribute("aria-busy", String(model.busy));
  };
  model.on("html", show);
  model.on("drawn", () => { root.dataset.drawn = model.drawn; });
  model.on("selected", mark);
  model.on("busy", busy);
  model.on("progress", () => {
    root.classList.toggle("counted", model.progress > 0 && model.progress < 1);
    root.style.setProperty("--done", `${100 * model.progress}%`);
  });
  show();
  busy();
  return root;
}

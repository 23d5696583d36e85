// Labelling: a page of documents at a time, by keys or buttons; labels stay in the browser's session until saved.
(() => {
  "use strict";

  const PAGE = 5;
  const KEYS = { r: "relevant", d: "distractor", i: "irrelevant", s: "skipped" };
  const MARKS = ["relevant", "distractor", "irrelevant"];
  const box = document.getElementById("label");
  if (!box) return;
  const cards = [...box.querySelectorAll("[data-doc]")];
  const store = `labels:${box.dataset.query}`;
  const marks = new Map(JSON.parse(sessionStorage.getItem(store) || "[]"));
  const undoable = [];
  let current = 0;

  for (const card of cards) {
    if (MARKS.includes(card.dataset.was) && !marks.has(card.dataset.doc)) marks.set(card.dataset.doc, card.dataset.was);
  }

  const put = (text, values) => text.replace(/\[(\w+)\]/g, (_, name) => values[name]);

  function show(focus) {
    const page = Math.floor(current / PAGE);
    const pages = Math.ceil(cards.length / PAGE);
    cards.forEach((card, n) => {
      const mark = marks.get(card.dataset.doc) || "";
      card.hidden = Math.floor(n / PAGE) !== page;
      card.classList.toggle("current", n === current);
      card.dataset.mark = mark;
      const button = card.querySelector(`[data-mark="${mark}"]`);
      card.querySelector("[data-says]").textContent = button ? button.firstChild.textContent.trim() : "";
      for (const each of card.querySelectorAll("button[data-mark]")) {
        each.setAttribute("aria-pressed", String(each.dataset.mark === mark));
      }
    });
    const left = cards.filter((card) => !marks.has(card.dataset.doc)).length;
    document.getElementById("progress").textContent = left
      ? put(box.dataset.left, { left, total: cards.length }) : box.dataset.done;
    document.getElementById("page").textContent = put(box.dataset.page, { page: page + 1, pages });
    for (const turn of box.querySelectorAll("[data-turn]")) {
      const there = page + Number(turn.dataset.turn);
      turn.disabled = there < 0 || there >= pages;
    }
    if (focus) {
      cards[current].focus({ preventScroll: true });
      cards[current].scrollIntoView({ block: "nearest" });
    }
  }

  function keep() {
    sessionStorage.setItem(store, JSON.stringify([...marks]));
  }

  function mark(n, value) {
    const doc = cards[n].dataset.doc;
    undoable.push([doc, marks.get(doc)]);
    marks.set(doc, value);
    keep();
    const next = cards.findIndex((card, place) => place > n && !marks.has(card.dataset.doc));
    current = next >= 0 ? next : Math.min(n + 1, cards.length - 1);
    show(true);
  }

  function undo() {
    const last = undoable.pop();
    if (!last) return;
    if (last[1] === undefined) marks.delete(last[0]);
    else marks.set(last[0], last[1]);
    keep();
    current = cards.findIndex((card) => card.dataset.doc === last[0]);
    show(true);
  }

  async function save() {
    const of = (value) => cards.map((card) => card.dataset.doc).filter((doc) => marks.get(doc) === value);
    const isComplete = cards.every((card) => MARKS.includes(marks.get(card.dataset.doc)));
    const body = { query: box.dataset.query, relevant: of("relevant"), distractors: of("distractor") };
    // Irrelevant documents are sent only where all are judged: they mark the question as fully judged.
    if (isComplete) body.irrelevant = of("irrelevant");
    if (!isComplete && !body.relevant.length && !body.distractors.length) {
      hive.tell(box.dataset.nothing, "fault");
      return;
    }
    body.tags = document.getElementById("tags").value.split(",").map((tag) => tag.trim()).filter(Boolean);
    const split = document.getElementById("split").value;
    if (split) body.split = split;
    try {
      await hive.api("POST", "/api/golden/labels", body);
      sessionStorage.removeItem(store);
      hive.tellNext(box.dataset.saved);
      location.assign(box.dataset.next);
    } catch (error) {
      hive.explain(error);
    }
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const key = event.key.toLowerCase();
    if (KEYS[key]) mark(current, KEYS[key]);
    else if (key === "u") undo();
    else if (key === "n") save();
    else if (key === "o") cards[current].querySelector("[data-open]").click();
    else if (key === "j" || key === "k") {
      current = Math.max(0, Math.min(cards.length - 1, current + (key === "j" ? 1 : -1)));
      show(true);
    } else return;
    event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    const card = event.target.closest("[data-doc]");
    const button = event.target.closest("button");
    if (card) current = cards.indexOf(card);
    if (!button) return;
    if (button.id === "save") save();
    else if (button.id === "undo") undo();
    else if (button.dataset.turn) {
      current = (Math.floor(current / PAGE) + Number(button.dataset.turn)) * PAGE;
      show(true);
    } else if (button.hasAttribute("data-close")) button.closest(".opened").replaceChildren();
    else if (card && button.dataset.mark) mark(current, button.dataset.mark);
    else if (card && button.hasAttribute("data-skip")) mark(current, "skipped");
  });

  document.addEventListener("htmx:after:swap", () => {
    const opened = cards[current].querySelector(".opened h2");
    if (!opened) return;
    const passage = cards[current].querySelector(".opened #passage");
    opened.focus({ preventScroll: Boolean(passage) });
    if (passage) passage.scrollIntoView({ block: "center" });
  });

  current = Math.max(0, cards.findIndex((card) => !marks.has(card.dataset.doc)));
  show(false);
})();

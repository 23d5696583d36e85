// The chat: asks questions, follows their runs, and keeps the filters of the next question.
//
// A button with data-ask asks the question in it, one with data-edit puts it into the form. An article with data-stream
// is a question that is being answered; when its run is over, it is replaced by the content of data-turn.
(() => {
  "use strict";

  const RETRY = 2000;
  const LOOK = 15000;
  const OPEN = ["queued", "running", "waiting", "paused"];
  const form = () => document.getElementById("ask");
  const thread = () => document.getElementById("chat")?.dataset.thread || "";
  let pinned = [];
  let about = null;
  let sent = null;

  function randomKey() {
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  const SIGNS = { eq: "=", in: "=", not_in: "≠", gte: "≥", gt: ">", lte: "≤", lt: "<", has: "~", above: ">", below: "<" };

  function inWords(demand) {
    return `${demand.field} ${SIGNS[demand.op]} ${[].concat(demand.value).join(" | ")}`;
  }

  // The filters of the next question survive a reload, as its text does.
  function remember() {
    sessionStorage.setItem(`asked:${thread() || "new"}`, JSON.stringify({ pinned, doc_id: about }));
  }

  function chip(words, drop) {
    const label = document.createElement("span");
    label.className = "chip";
    label.textContent = words;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "×";
    button.setAttribute("aria-label", `${form().dataset.without} ${words}`);
    button.addEventListener("click", () => {
      drop();
      remember();
      showChips();
      form().elements.text.focus();
    });
    label.append(button);
    return label;
  }

  function showChips() {
    const chips = pinned.map((demand) => chip(inWords(demand), () => { pinned = pinned.filter((one) => one !== demand); }));
    if (about) chips.unshift(chip(`${form().dataset.about} ${about}`, () => { about = null; }));
    document.getElementById("pinned").replaceChildren(...chips);
  }

  function take(asked) {
    pinned = asked.pinned || [];
    about = asked.doc_id || null;
    remember();
    showChips();
  }

  async function ask(asked, source) {
    const input = Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== null && value !== undefined));
    const body = { graph: "worker", input, ...(thread() ? { thread_id: thread() } : {}) };
    // The same question, sent again after a failure, has the same key: it starts one run.
    if (sent?.text !== JSON.stringify(body)) sent = { text: JSON.stringify(body), key: randomKey() };
    source.setAttribute("aria-busy", "true");
    try {
      const run = await hive.api("POST", "/api/runs", body, { "Idempotency-Key": sent.key });
      sent = null;
      // The text is cleared only where it is still the one that was sent.
      if (source === form() && source.elements.text.value === asked.text) {
        source.dispatchEvent(new CustomEvent("hive:done", { bubbles: true, detail: run }));
        source.elements.text.value = "";
      }
      // A page on which a conversation began with a file has no head for it yet.
      if (!thread() || document.getElementById("chat").dataset.begun !== undefined) {
        sessionStorage.removeItem("asked:new");
        location.assign(`/chat/${encodeURIComponent(run.thread_id)}`);
        return;
      }
      await add(run);
      document.getElementById(`turn-${run.run_id}`)?.scrollIntoView({ block: "start" });
    } catch (error) {
      hive.explain(error);
    } finally {
      source.removeAttribute("aria-busy");
    }
  }

  const turnOf = (run) => `/chat/${encodeURIComponent(run.thread_id)}/turns/${encodeURIComponent(run.run_id)}`;

  const added = new Map();

  // Feedback that was sent closes its form, and stays told beside what it is on.
  document.addEventListener("hive:done", (event) => {
    if (event.target.dataset.api !== "POST /api/feedback") return;
    const menu = event.target.closest("details.menu");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
    const told = event.target.closest(".result, .answer")?.querySelector("[data-given]");
    if (told) told.hidden = false;
  });

  // Adds a question to the conversation, once.
  function add(run) {
    const id = `turn-${run.run_id}`;
    if (document.getElementById(id)) return Promise.resolve();
    if (!added.has(id)) {
      const adding = htmx.ajax("GET", turnOf(run), { source: "#turns", target: "#turns", swap: "beforeend" }).then(() => {
        document.querySelector(".talk > .empty")?.remove();
        document.getElementById("skip-turn")?.setAttribute("href", `#${id}`);
      });
      added.set(id, adding.finally(() => added.delete(id)));
    }
    return added.get(id);
  }

  // Questions that were asked in another tab or by another program are added too.
  document.addEventListener("hive:changed", async (event) => {
    if (!thread() || !event.detail.some((change) => change.kind === "run" || change.kind === "all")) return;
    const found = await hive.api("GET", `/api/threads/${encodeURIComponent(thread())}/runs`).catch(() => null);
    for (const one of found?.runs || []) await add(one.run);
  });

  // Each turn sends its own request: of concurrent ones of one element, htmx drops all but two. A failed one is
  // repeated, since nothing else would end the turn.
  async function show(article) {
    await htmx.ajax("GET", article.dataset.turn, { source: article, target: article, swap: "outerHTML" });
    if (article.isConnected) window.setTimeout(() => settle(article), RETRY);
  }

  function follow(article) {
    article.dataset.following = "";
    const broken = article.querySelector(".broken");
    const source = new EventSource(article.dataset.stream);
    // A proxy may buffer the stream: the state of the run is polled, too.
    const look = window.setInterval(async () => {
      const run = await hive.api("GET", article.dataset.stream.replace(/\/events$/, "")).catch(() => null);
      if (run && !OPEN.includes(run.run.status)) end();
    }, LOOK);
    const end = () => {
      window.clearInterval(look);
      source.close();
      if (article.isConnected) show(article);
    };
    source.onopen = () => { broken.hidden = true; };
    source.onmessage = (message) => {
      const event = JSON.parse(message.data);
      const waits = article.querySelector(".waits");
      if (event.type === "RUN_STARTED") waits.textContent = waits.dataset.running;
      if (event.type === "STEP_STARTED") {
        waits.hidden = true;
        const step = article.querySelector(`[data-step="${CSS.escape(event.stepName)}"]`);
        if (step) step.hidden = false;
      }
      if (event.type === "STEP_FINISHED") {
        article.querySelector(`[data-step="${CSS.escape(event.stepName)}"]`)?.classList.add("ended");
      }
      if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") end();
    };
    source.onerror = () => {
      broken.hidden = false;
      if (source.readyState !== EventSource.CLOSED) return;
      window.clearInterval(look);
      settle(article);
    };
  }

  // The stream ended or was refused: the state of the run decides what to do.
  async function settle(article) {
    if (!article.isConnected) return;
    try {
      const run = await hive.api("GET", article.dataset.stream.replace(/\/events$/, ""));
      if (OPEN.includes(run.run.status)) window.setTimeout(() => follow(article), RETRY);
      else show(article);
    } catch (error) {
      if (error.status === 0 || error.status >= 500) window.setTimeout(() => settle(article), RETRY);
      else {
        hive.explain(error);
        if (error.status === 401) document.addEventListener("hive:signed-in", () => settle(article), { once: true });
      }
    }
  }

  function prepare() {
    for (const article of document.querySelectorAll("article[data-stream]:not([data-following])")) follow(article);
    if (form() && form().dataset.ready === undefined) begin();
  }

  function begin() {
    form().dataset.ready = "";
    const kept = sessionStorage.getItem(`asked:${thread() || "new"}`);
    const asked = JSON.parse(form().dataset.asked);
    take(kept && !asked.doc_id ? JSON.parse(kept) : asked);
    const threads = document.querySelector("details.threads");
    if (threads && window.matchMedia("(max-width: 46rem)").matches) threads.open = false;
    showValues();
    const last = document.querySelector("#turns > article:last-child");
    if (last) last.scrollIntoView({ block: "start" });
    else form().elements.text.focus();
  }

  function showValues() {
    const pin = document.getElementById("pin");
    if (!pin) return;
    const values = JSON.parse(pin.dataset.fields)[document.getElementById("field").value] || [];
    document.getElementById("values").replaceChildren(
      ...values.map((value) => Object.assign(document.createElement("option"), { value })),
    );
  }

  document.addEventListener("change", (event) => { if (event.target.id === "field") showValues(); });

  document.addEventListener("submit", (event) => {
    if (event.target !== form()) return;
    event.preventDefault();
    if (form().getAttribute("aria-busy") === "true") return;
    ask({ text: form().elements.text.value, pinned, doc_id: about }, form());
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target === form()?.elements.text) {
      event.preventDefault();
      form().requestSubmit();
    }
    if (event.key === "Enter" && event.target.id === "value") {
      event.preventDefault();
      document.getElementById("pin").click();
    }
    if (event.key === "Escape" && event.target.closest?.("#beside")) close();
  });

  let opener = null;

  function close() {
    const beside = document.getElementById("beside");
    if (!beside) {
      history.back();
      return;
    }
    const wasPushed = history.state?.beside;
    shut();
    if (wasPushed) history.back();
  }

  function shut() {
    document.getElementById("beside").replaceChildren();
    opener?.focus();
  }

  // Going back closes the document first: on a small screen it covers the conversation.
  let before = null;

  function cover() {
    if (history.state?.beside) return;
    // Without a fragment, to which going back would move the focus.
    history.replaceState(history.state, "", location.pathname + location.search);
    before = location.href;
    history.pushState({ beside: true }, "");
  }

  window.addEventListener("popstate", (event) => {
    const open = document.querySelector("#beside > *");
    if (open && !event.state?.beside && location.href === before) shut();
  });

  async function pin() {
    const [field, op, value] = ["field", "op", "value"].map((id) => document.getElementById(id).value);
    if (!value.trim()) return;
    const bound = op === "gte" || op === "lte";
    const number = bound && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
    pinned = [...pinned.filter((one) => one.field !== field || (bound && one.op !== op)),
      { field, op, value: op === "not_in" ? [value] : number }];
    document.getElementById("value").value = "";
    remember();
    showChips();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-ask], [data-edit], [data-only], [data-close], #pin, [hx-target='#beside']");
    if (!button) return;
    if (button.id === "pin") pin();
    else if (button.hasAttribute("data-close")) close();
    else if (button.dataset.ask) {
      if (button.getAttribute("aria-busy") !== "true") ask(JSON.parse(button.dataset.ask), button);
    } else if (button.dataset.edit) {
      const asked = JSON.parse(button.dataset.edit);
      take(asked);
      form().elements.text.value = asked.text;
      form().elements.text.dispatchEvent(new Event("input", { bubbles: true }));
      form().elements.text.focus();
    } else if (button.dataset.only) {
      if (!form()) {
        location.assign(`/chat?about=${encodeURIComponent(button.dataset.only)}`);
        return;
      }
      take({ pinned: [], doc_id: button.dataset.only });
      form().elements.text.focus();
    } else {
      opener = button;
      for (const cite of document.querySelectorAll(".cite[data-open]")) delete cite.dataset.open;
      if (button.classList.contains("cite")) button.dataset.open = "";
    }
  });

  // The opened document is shown beside the answer, scrolled to the passage.
  document.addEventListener("htmx:after:swap", () => {
    const heading = document.querySelector("#beside h2");
    if (!heading || heading.dataset.shown !== undefined) return;
    heading.dataset.shown = "";
    cover();
    const passage = document.querySelector("#beside #passage");
    heading.focus({ preventScroll: Boolean(passage) });
    if (passage) {
      const text = passage.closest(".text");
      text.scrollTop += passage.getBoundingClientRect().top - text.getBoundingClientRect().top - 48;
      document.getElementById("beside").scrollIntoView({ block: "nearest" });
    }
  });

  document.addEventListener("hive:shown", prepare);
})();

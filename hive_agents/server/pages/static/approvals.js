// The inbox: a list, beside it the open request; decisions by the hash of the content that was read, conflicts with
// others, and drafts of edits.
(() => {
  "use strict";

  const inField = (target) => target.closest("input:not([type=checkbox]), textarea, select");

  function ago(at) {
    const seconds = Math.max(0, Math.round((Date.now() - new Date(at)) / 1000));
    const format = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "always", style: "short" });
    if (seconds < 90) return format.format(-seconds, "second");
    if (seconds < 5400) return format.format(-Math.round(seconds / 60), "minute");
    if (seconds < 129600) return format.format(-Math.round(seconds / 3600), "hour");
    return format.format(-Math.round(seconds / 86400), "day");
  }

  const filled = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

  // Returns what happened to a request since it was shown, as text; null where it is unchanged.
  async function outcomeOf(shown, words) {
    const { request } = await hive.api("GET", `/api/approvals/${encodeURIComponent(shown.request)}`);
    const last = request.decisions.at(-1);
    if (request.status !== "pending" && last) {
      return filled(words[last.verb], { who: last.by.replace(/^user:/, ""), when: ago(last.at) });
    }
    if (request.status !== "pending") return words[request.status];
    return request.content_hash === shown.hash ? null : words.changed;
  }

  // Shows another person's decision above the forms, which can't be sent any more; what was typed stays.
  async function tellConflict(article) {
    const words = article.dataset;
    const text = await outcomeOf(words, words);
    if (text === null) return false;
    if (article.dataset.status !== "pending") return true; // answered here meanwhile
    const place = article.querySelector("#conflict");
    if (place.dataset.told === text.replace(/\d+/g, "")) return true;
    place.dataset.told = text.replace(/\d+/g, "");
    hive.hush();
    for (const button of article.querySelectorAll("[data-decide] [type=submit]")) button.disabled = true;
    for (const field of article.querySelectorAll("[data-arg]")) clearFault(field);
    const box = document.createElement("div");
    box.className = "fault";
    const said = document.createElement("p");
    const strong = document.createElement("strong");
    strong.textContent = text;
    said.append(strong);
    const kept = document.createElement("p");
    kept.textContent = words.kept;
    const again = document.createElement("button");
    again.type = "button";
    again.className = "quiet";
    again.textContent = words.reload;
    again.addEventListener("click", () => location.reload());
    box.append(said, kept, again);
    place.replaceChildren(box);
    return true;
  }

  const CAST = {
    text: (text) => text,
    choice: (text) => text,
    boolean: (text) => text === "true",
    number: (text) => Number(text),
    json: (text) => JSON.parse(text),
  };
  const pointer = (name) => `/${name.replace(/~/g, "~0").replace(/\//g, "~1")}`;

  // Removes a field's error, which is shown until the field changes or the form is sent again.
  function clearFault(field) {
    const line = field.parentElement.querySelector(`[data-fault="${CSS.escape(field.id)}"]`);
    if (!line) return;
    const others = (field.getAttribute("aria-describedby") || "").split(" ").filter((id) => id && id !== line.id);
    if (others.length) field.setAttribute("aria-describedby", others.join(" "));
    else field.removeAttribute("aria-describedby");
    field.removeAttribute("aria-invalid");
    line.remove();
  }

  function tellFault(field, text) {
    const line = document.createElement("p");
    line.className = "bad";
    line.id = `${field.id}-fault`;
    line.dataset.fault = field.id;
    line.setAttribute("role", "alert");
    line.textContent = text;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", [field.getAttribute("aria-describedby"), line.id].filter(Boolean).join(" "));
    field.after(line);
  }

  // Returns the value of a field; undefined, with an error at the field, where it isn't valid JSON.
  function valueOf(field, article) {
    try {
      return CAST[field.dataset.widget](field.value);
    } catch {
      tellFault(field, filled(article.dataset.notJson, { name: field.dataset.arg }));
      return undefined;
    }
  }

  // Returns the changed arguments as RFC 6902 operations; null where a field has an error. An empty field of an absent
  // argument leaves it absent.
  function patchOf(form, article) {
    const steps = [];
    const fields = [...form.querySelectorAll("[data-arg]")];
    fields.forEach(clearFault);
    for (const field of fields) {
      const { arg, widget, was } = field.dataset;
      if (field.value === "" && (was === undefined || widget !== "text")) {
        if (was !== undefined) steps.push({ op: "remove", path: pointer(arg) });
        continue;
      }
      const value = valueOf(field, article);
      if (value === undefined) continue;
      if (was !== undefined && JSON.stringify(JSON.parse(was)) === JSON.stringify(value)) continue;
      steps.push({ op: was === undefined ? "add" : "replace", path: pointer(arg), value });
    }
    const first = form.querySelector("[aria-invalid]");
    first?.focus();
    return first ? null : steps;
  }

  // Edits of arguments survive a reload. Where the request changed meanwhile they are offered, not filled in.
  const keptOf = (field) => `arg:${field.closest("[data-request]").dataset.request}:${field.dataset.arg}`;

  document.addEventListener("input", (event) => {
    const field = event.target;
    if (!field.dataset.arg) return;
    clearFault(field);
    const { hash } = field.closest("[data-request]").dataset;
    sessionStorage.setItem(keptOf(field), JSON.stringify({ hash, value: field.value }));
  });

  document.addEventListener("hive:done", (event) => {
    for (const field of event.target.querySelectorAll("[data-arg]")) sessionStorage.removeItem(keptOf(field));
  });

  function restore(article) {
    for (const field of article.querySelectorAll("[data-arg]")) {
      const kept = JSON.parse(sessionStorage.getItem(keptOf(field)) || "null");
      if (!kept || kept.value === field.value) continue;
      if (kept.hash === article.dataset.hash) {
        field.value = kept.value;
        continue;
      }
      const line = document.createElement("p");
      line.className = "soft given";
      line.textContent = `${article.dataset.before} ${kept.value} `;
      const use = document.createElement("button");
      use.type = "button";
      use.className = "quiet small";
      use.textContent = article.dataset.useIt;
      use.addEventListener("click", () => {
        field.value = kept.value;
        field.dispatchEvent(new Event("input", { bubbles: true }));
        line.remove();
        field.focus();
      });
      line.append(use);
      field.after(line);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const article = document.getElementById("request");
    if (article?.dataset.status === "pending") restore(article);
  });

  async function decide(form) {
    const article = form.closest("[data-request]");
    const verb = form.dataset.decide;
    hive.hush();
    const answer = { verb, version: Number(article.dataset.version), content_hash: article.dataset.hash };
    for (const name of ["reason", "message"]) {
      const text = form.elements[name]?.value.trim();
      if (text) answer[name] = text;
    }
    if (form.elements.for_run?.checked) answer.for_run = true;
    if (verb === "edit") {
      answer.patch = patchOf(form, article);
      if (answer.patch === null) return;
      if (answer.patch.length === 0) {
        hive.tell(article.dataset.unchanged, "fault");
        return;
      }
    }
    form.setAttribute("aria-busy", "true");
    const row = rowOf(article.dataset.request);
    if (row) row.dataset.gone = ""; // no notice about what is decided here
    try {
      await hive.api("POST", `/api/approvals/${encodeURIComponent(article.dataset.request)}/decide`, answer);
      form.dispatchEvent(new CustomEvent("hive:done", { bubbles: true }));
      article.dataset.status = "answered"; // until the next one is here, no second answer
      goOn(article, row);
    } catch (error) {
      if (row) delete row.dataset.gone;
      if (error.status !== 409 || !(await tellConflict(article))) hive.explain(error);
    } finally {
      form.removeAttribute("aria-busy");
    }
  }

  // After an answer: to the next request, in the list or by the page's own link.
  function goOn(article, row) {
    const onward = document.getElementById("next");
    if (row?.closest("[data-queue]")) {
      settled([row], article.dataset.counts, true);
    } else if (onward && !row) {
      hive.tellNext(article.dataset.counts);
      location.assign(onward.href);
    } else {
      location.reload();
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-decide]");
    if (!form) return;
    event.preventDefault();
    const { status } = form.closest("[data-request]").dataset;
    if (status === "pending" && form.getAttribute("aria-busy") !== "true") decide(form);
  });

  document.addEventListener("click", (event) => {
    const option = event.target.closest("[data-option]");
    if (option) {
      const given = JSON.parse(option.dataset.option);
      option.form.elements.message.value = typeof given === "string" ? given : option.dataset.option;
    }
    const batch = event.target.closest("[data-batch]");
    if (batch) decideAll(batch);
  });

  // The list. Where there is room for both, a request is read beside it.
  const wide = window.matchMedia("(min-width: 64rem)");
  const rowsOf = () => [...document.querySelectorAll("#queue li[data-request]")];
  const rowOf = (id) => document.querySelector(`#queue li[data-request="${CSS.escape(id)}"]`);
  const linkOf = (row) => row.querySelector("[data-open]");
  const boxOf = (row) => row.querySelector("[data-choose]");
  const visible = (one) => one.checkVisibility();
  let coming = null; // the request that is fetched, of which only the last is shown

  async function open(row, isGoneTo) {
    const reading = document.getElementById("reading");
    const id = row.dataset.request;
    if (coming?.id === id) {
      coming.isGoneTo ||= isGoneTo;
      return;
    }
    const there = coming ? null : reading.querySelector("#request");
    if (there?.dataset.request === id) {
      if (isGoneTo) there.focus();
      return;
    }
    const mine = { id, isGoneTo };
    coming = mine;
    for (const one of document.querySelectorAll("#queue [aria-current]")) one.removeAttribute("aria-current");
    linkOf(row).setAttribute("aria-current", "true");
    history.replaceState(null, "", `${location.search}#${id}`);
    const answer = await fetch(linkOf(row).href, { headers: { "HX-Request": "true" }, cache: "no-store" });
    const text = await answer.text();
    if (coming !== mine) return;
    coming = null;
    if (answer.status === 204) document.dispatchEvent(new CustomEvent("hive:signed-out"));
    const article = new DOMParser().parseFromString(text, "text/html").getElementById("request");
    if (answer.status !== 200 || answer.headers.get("X-Hive-Me") !== document.body.dataset.me || !article) {
      if (answer.status !== 204) location.assign(linkOf(row).href); // which says what is wrong
      return;
    }
    const title = document.createElement("h2"); // the page has its own main heading
    title.id = "request-title";
    title.append(...article.querySelector("h1").childNodes);
    article.querySelector("h1").replaceWith(title);
    reading.replaceChildren(article);
    document.getElementById("skip-answer").hidden = !article.querySelector("#answer");
    hive.prepare(reading);
    if (article.dataset.status === "pending") restore(article);
    if (reading.getBoundingClientRect().top < 0) reading.scrollIntoView();
    if (mine.isGoneTo) article.focus({ preventScroll: true });
  }

  // Without the server the link leads to what the browser says of it.
  const opened = (row, isGoneTo) => open(row, isGoneTo).catch(() => {
    coming = null;
    location.assign(linkOf(row).href);
  });

  function begin() {
    const reading = document.getElementById("reading");
    if (!reading || !wide.matches || reading.querySelector("#request")) return;
    const row = rowOf(location.hash.slice(1)) || rowsOf().find((one) => visible(linkOf(one)));
    if (!row) return;
    row.closest("details")?.setAttribute("open", "");
    opened(row, false);
  }

  document.addEventListener("DOMContentLoaded", begin);
  wide.addEventListener("change", begin);

  document.addEventListener("click", (event) => {
    const link = event.target.closest("#queue [data-open]");
    if (!link || !wide.matches || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    opened(link.closest("li"), event.detail === 0); // a key goes there, the mouse stays in the list
  });

  const answered = new Set(); // here; some of them may wait for another person, and are nothing new

  function takeOut(row) {
    const group = row.closest("[data-group]");
    answered.add(row.dataset.request);
    row.remove();
    const left = group?.querySelectorAll("li[data-request]").length;
    if (left) group.querySelector("[data-count]").textContent = left;
    else group?.remove();
  }

  // Takes decided requests out of the list, and goes on to the next one that the person may decide.
  function settled(rows, text, isGoneTo) {
    const all = rowsOf();
    const at = all.indexOf(rows.at(-1));
    const mayBeNext = ({ dataset }) => "mine" in dataset && !("gone" in dataset);
    const next = [...all.slice(at + 1), ...all.slice(0, at)].find(mayBeNext);
    rows.forEach(takeOut);
    count();
    if (!next) {
      hive.tellNext(document.getElementById("queue").dataset.done);
      location.assign("/approvals");
      return;
    }
    hive.tell(text);
    next.closest("details")?.setAttribute("open", "");
    if (!isGoneTo || !wide.matches) linkOf(next).focus();
    if (wide.matches) opened(next, isGoneTo);
  }

  // A batch: each chosen request is decided by the hash of the content that was shown.
  const chosen = () => rowsOf().filter((row) => boxOf(row)?.checked);
  let range = { from: null, rows: [] };

  function choose(row, isChosen) {
    const box = boxOf(row);
    if (box && !box.disabled) box.checked = isChosen;
  }

  function between(from, to) {
    const rows = rowsOf().filter((row) => visible(linkOf(row)));
    const ends = [rows.indexOf(from), rows.indexOf(to)].sort((a, b) => a - b);
    return ends[0] < 0 ? [to] : rows.slice(ends[0], ends[1] + 1);
  }

  function count() {
    const bar = document.getElementById("batch");
    if (!bar) return;
    const n = chosen().length;
    const place = document.getElementById("chosen");
    bar.hidden = n === 0;
    place.textContent = filled(place.dataset.text, { n });
    for (const all of document.querySelectorAll("[data-all]")) {
      const boxes = [...all.closest("details").querySelectorAll("[data-choose]:enabled")];
      const some = boxes.filter((box) => box.checked).length;
      all.checked = some > 0 && some === boxes.length;
      all.indeterminate = some > 0 && some < boxes.length;
      all.disabled = boxes.length === 0;
    }
  }

  document.addEventListener("change", (event) => {
    const all = event.target.closest("[data-all]");
    if (all) for (const row of all.closest("details").querySelectorAll("li[data-request]")) choose(row, all.checked);
    if (all || event.target.closest("[data-choose]")) count();
  });

  // With Shift all between the last box and this one becomes as this one.
  document.addEventListener("click", (event) => {
    const box = event.target.closest("[data-choose]");
    if (box) {
      const row = box.closest("li");
      if (event.shiftKey && range.from) for (const one of between(range.from, row)) choose(one, box.checked);
      range = { from: row, rows: [] };
      count();
    }
    if (event.target.id === "choose-none") chooseNone();
  });

  function chooseNone() {
    for (const row of chosen()) choose(row, false);
    count();
    (document.querySelector("#queue [aria-current]") || document.querySelector("#queue [data-open]")).focus();
  }

  async function decideAll(button) {
    const reason = document.getElementById("batch-reason").value.trim();
    const told = document.getElementById("batch-told");
    const list = document.createElement("ul");
    told.replaceChildren(list);
    button.setAttribute("aria-busy", "true");
    button.disabled = true;
    const rows = chosen();
    const decided = [];
    for (const row of rows) row.dataset.gone = ""; // no notice about requests that are decided here
    const article = document.getElementById("request");
    const isOpen = rows.some((row) => row.dataset.request === article?.dataset.request);
    if (isOpen) article.dataset.status = "answered";
    for (const row of rows) {
      const answer = { verb: button.dataset.batch, content_hash: row.dataset.hash, ...(reason ? { reason } : {}) };
      try {
        await hive.api("POST", `/api/approvals/${encodeURIComponent(row.dataset.request)}/decide`, answer);
        decided.push(row);
      } catch (error) {
        const line = document.createElement("li");
        line.className = "bad";
        line.textContent = `${linkOf(row).textContent.trim()}: ${error.message}`;
        list.append(line);
        boxOf(row).checked = !(boxOf(row).disabled = true);
      }
    }
    button.removeAttribute("aria-busy");
    button.disabled = false;
    count();
    const words = document.getElementById("queue").dataset;
    const failed = rows.length - decided.length;
    if (failed) {
      decided.forEach(takeOut);
      if (isOpen && rowOf(article.dataset.request)) {
        article.dataset.status = "pending";
        await tellConflict(article).catch(() => {}); // why it wasn't decided stands above the list
      } else if (isOpen) {
        article.remove();
        begin();
      }
      hive.tell(filled(words.partly, { n: failed }), "fault");
      return;
    }
    sessionStorage.removeItem("draft:approvals-batch");
    document.getElementById("batch-reason").value = "";
    settled(decided, filled(words.decided, { n: decided.length }), false);
  }

  // Keys: j, k and the arrows move, x chooses, with Shift an arrow chooses a range; a, r, e and m go to an answer, of
  // the batch where something is chosen, and Enter gives it: no single key decides.
  const STEPS = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };

  function move(step, isRange) {
    const stops = [...document.querySelectorAll("#queue-list summary, #queue-list [data-open]")].filter(visible);
    const now = document.activeElement.closest("summary, li[data-request]");
    const here = now?.matches("li") ? linkOf(now) : now || document.querySelector("#queue [aria-current]");
    const stop = stops[Math.min(stops.length - 1, Math.max(0, stops.indexOf(here) + step))];
    if (!stop) return;
    stop.focus();
    const row = stop.closest("li[data-request]");
    if (isRange && row) {
      const from = here?.closest("li[data-request]") || row;
      if (!range.rows.includes(from)) range = { from, rows: [] };
      const rows = between(range.from, row);
      for (const one of range.rows) if (!rows.includes(one)) choose(one, false);
      for (const one of rows) choose(one, true);
      range.rows = rows;
      count();
    }
    if (row && wide.matches) opened(row, false);
  }

  // Chooses a request, or all of a group, which is opened: a batch has nothing that wasn't shown.
  function pick(place) {
    if (place.matches("summary")) place.parentElement.open = true;
    (place.matches("summary") ? place.parentElement.querySelector("[data-all]") : boxOf(place))?.click();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || inField(event.target)) return;
    const list = document.getElementById("queue-list");
    const batch = document.querySelector("#batch:not([hidden])");
    const now = document.activeElement.closest("#queue-list summary, #queue-list li[data-request]");
    const place = (batch || document.getElementById("request"))?.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (event.key in STEPS && list && (now || !event.key.startsWith("Arrow"))) move(STEPS[event.key], event.shiftKey);
    else if (event.key === "j" && document.getElementById("next")) document.getElementById("next").click();
    else if (event.key === "x" && now) pick(now);
    else if (event.key === "Escape" && batch) chooseNone();
    else if (place) place.focus();
    else return;
    event.preventDefault();
  });

  // Updates the queue: decided requests say so and can't be chosen; new ones are added on demand, so that nothing moves
  // while a person acts.
  const LIMIT = 25;

  async function lookAtQueue(queue) {
    const asked = new URLSearchParams({ status: "pending", order: "due", limit: LIMIT });
    const cursor = new URLSearchParams(location.search).get("cursor");
    if (cursor) asked.set("cursor", cursor);
    const { items, waiting } = await hive.api("GET", `/api/approvals?${asked}`);
    const now = new Map(items.map((one) => [one.id, one.content_hash]));
    const rows = [...queue.querySelectorAll("li[data-request]")];
    for (const row of rows) {
      if (now.get(row.dataset.request) === row.dataset.hash || row.dataset.gone !== undefined) continue;
      const text = await outcomeOf(row.dataset, queue.dataset).catch((error) => {
        if (error.status === 404) return queue.dataset.unknown;
        throw error;
      });
      // Null where it waits on a later page. Meanwhile it may have been marked already, or decided here.
      if (text === null || row.dataset.gone !== undefined) continue;
      row.dataset.gone = "";
      const line = document.createElement("p");
      line.className = "warn";
      line.textContent = text;
      row.append(line);
      const box = boxOf(row);
      if (box) box.checked = !(box.disabled = true);
    }
    const known = new Set(rows.map((row) => row.dataset.request));
    const fresh = items.filter((one) => !known.has(one.id) && !answered.has(one.id)).length;
    const button = document.getElementById("show-new");
    button.hidden = fresh === 0;
    button.textContent = filled(button.dataset.text, { n: fresh });
    const chip = document.getElementById("waiting");
    if (waiting) chip.textContent = filled(chip.dataset.text, { n: waiting });
    count();
  }

  // The list as it is now; what was chosen, and opened, stays so.
  async function showNew(queue) {
    const answer = await fetch(location.href, { headers: { "HX-Request": "true" }, cache: "no-store" });
    const list = queue.querySelector("#queue-list");
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = page.getElementById("queue-list");
    if (answer.status !== 200 || !list || !now) {
      location.reload();
      return;
    }
    const before = new Map(rowsOf().map((row) => [row.dataset.request, row]));
    list.replaceWith(now);
    hive.localTimes(now);
    for (const row of rowsOf()) {
      const there = before.get(row.dataset.request);
      if (there?.dataset.hash === row.dataset.hash && boxOf(there)?.checked) choose(row, true);
      if (there?.closest("details")?.open) row.closest("details")?.setAttribute("open", "");
      if (there && linkOf(there).hasAttribute("aria-current")) linkOf(row).setAttribute("aria-current", "true");
    }
    document.getElementById("show-new").hidden = true;
    count();
    const first = rowsOf().find((row) => !before.has(row.dataset.request));
    first?.closest("details")?.setAttribute("open", "");
    if (first) linkOf(first).focus();
  }

  document.addEventListener("click", (event) => {
    if (event.target.id === "show-new") showNew(document.getElementById("queue")).catch(hive.explain);
  });

  // Decisions of others are shown on open requests and in the queue.
  document.addEventListener("hive:changed", (event) => {
    const about = (id) => event.detail.some((one) => one.kind === "all" || (one.kind === "request" && (!id || one.id === id)));
    const article = document.getElementById("request");
    const queue = document.querySelector("#queue[data-queue]");
    const quiet = (error) => { if (error.status === 401) hive.explain(error); };
    const isSent = article?.querySelector("form[data-decide][aria-busy]"); // whose answer tells it
    if (article?.dataset.status === "pending" && !isSent && about(article.dataset.request)) tellConflict(article).catch(quiet);
    if (queue && about()) lookAtQueue(queue).catch(quiet);
  });
})();

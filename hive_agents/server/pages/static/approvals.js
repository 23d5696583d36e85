// Approvals: decisions by the hash of the content that was read, conflicts with others, and drafts of edits.
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

  // Shows another person's decision above the forms, which stay as they are.
  async function tellConflict(article) {
    const words = article.dataset;
    const text = await outcomeOf(words, words);
    if (text === null) return false;
    const place = article.querySelector("#conflict");
    if (place.dataset.told === text.replace(/\d+/g, "")) return true;
    place.dataset.told = text.replace(/\d+/g, "");
    hive.hush();
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
    try {
      await hive.api("POST", `/api/approvals/${encodeURIComponent(article.dataset.request)}/decide`, answer);
      form.dispatchEvent(new CustomEvent("hive:done", { bubbles: true }));
      location.reload();
    } catch (error) {
      if (error.status !== 409 || !(await tellConflict(article))) hive.explain(error);
    } finally {
      form.removeAttribute("aria-busy");
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-decide]");
    if (!form) return;
    event.preventDefault();
    if (form.getAttribute("aria-busy") !== "true") decide(form);
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

  // The queue: each chosen request is decided by the hash of the content that was shown.
  const chosen = () => [...document.querySelectorAll("#queue li input[type=checkbox]:checked")].map((box) => box.closest("li"));

  function count() {
    const place = document.getElementById("chosen");
    if (!place) return;
    const n = chosen().length;
    place.textContent = filled(place.dataset.text, { n });
    for (const button of document.querySelectorAll("[data-batch]")) button.disabled = n === 0;
  }

  document.addEventListener("change", (event) => {
    if (event.target.matches("#queue li input[type=checkbox]")) count();
  });

  async function decideAll(button) {
    const reason = document.getElementById("batch-reason").value.trim();
    const told = document.getElementById("batch-told");
    const list = document.createElement("ul");
    told.replaceChildren(list);
    button.setAttribute("aria-busy", "true");
    button.disabled = true;
    let failed = 0;
    const rows = chosen();
    for (const row of rows) row.dataset.gone = ""; // no notice about requests that are decided here
    for (const row of rows) {
      const answer = { verb: button.dataset.batch, content_hash: row.dataset.hash, ...(reason ? { reason } : {}) };
      try {
        await hive.api("POST", `/api/approvals/${encodeURIComponent(row.dataset.request)}/decide`, answer);
        row.remove();
      } catch (error) {
        failed += 1;
        const line = document.createElement("li");
        line.className = "bad";
        line.textContent = `${row.querySelector("h2").textContent.trim()}: ${error.message}`;
        list.append(line);
        row.querySelector("input").checked = false;
        row.querySelector("input").disabled = true;
      }
    }
    button.removeAttribute("aria-busy");
    count();
    const words = document.getElementById("queue").dataset;
    if (failed) {
      hive.tell(filled(words.partly, { n: failed }), "fault");
      return;
    }
    sessionStorage.removeItem("draft:approvals-batch");
    hive.tellNext(words.done);
    location.reload();
  }

  // Keys: in the queue j and k move, x chooses, Enter opens; in a request a, r, e and m focus an answer, Enter sends it.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || inField(event.target)) return;
    const article = document.getElementById("request");
    if (article) {
      const place = article.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
      if (!place) return;
      event.preventDefault();
      place.focus();
      return;
    }
    const rows = [...document.querySelectorAll("#queue li[data-request]")];
    const now = rows.indexOf(document.activeElement?.closest("li[data-request]"));
    if ((event.key === "j" || event.key === "k") && rows.length) {
      event.preventDefault();
      rows[Math.min(rows.length - 1, Math.max(0, now + (event.key === "j" ? 1 : -1)))].focus();
    } else if (event.key === "x" && now >= 0) {
      rows[now].querySelector("input[type=checkbox]")?.click();
    } else if (event.key === "Enter" && document.activeElement === rows[now]) {
      rows[now].querySelector("h2 a").click();
    }
  });

  // Updates the queue: decided requests say so and can't be chosen; new ones are added on demand, so that nothing moves
  // while a person acts.
  const LIMIT = 25;

  async function lookAtQueue(queue) {
    const asked = new URLSearchParams({ status: "pending", order: "due", limit: LIMIT });
    const cursor = new URLSearchParams(location.search).get("cursor");
    if (cursor) asked.set("cursor", cursor);
    const { items } = await hive.api("GET", `/api/approvals?${asked}`);
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
      const box = row.querySelector("input[type=checkbox]");
      if (box) box.checked = !(box.disabled = true);
    }
    const known = new Set(rows.map((row) => row.dataset.request));
    const fresh = items.filter((one) => !known.has(one.id)).length;
    const button = document.getElementById("show-new");
    button.hidden = fresh === 0;
    button.textContent = filled(button.dataset.text, { n: fresh });
    count();
  }

  async function showNew(queue) {
    const answer = await fetch(location.href, { headers: { "HX-Request": "true" }, cache: "no-store" });
    const list = queue.querySelector("ol");
    if (answer.status !== 200 || !list) {
      location.reload();
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const here = (row) => list.querySelector(`:scope > [data-request="${CSS.escape(row.dataset.request)}"]`);
    let before = null;
    let first = null;
    for (const row of page.querySelectorAll("#queue ol > li[data-request]")) {
      const there = here(row);
      if (!there) {
        hive.localTimes(row);
        if (before) before.after(row);
        else list.prepend(row);
        first ??= row;
      }
      before = there || row;
    }
    document.getElementById("show-new").hidden = true;
    first?.focus();
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
    if (article?.dataset.status === "pending" && about(article.dataset.request)) tellConflict(article).catch(quiet);
    if (queue && about()) lookAtQueue(queue).catch(quiet);
  });
})();

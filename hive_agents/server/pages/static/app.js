// What pages do in a browser beyond links: whatever changes something goes to the API as JSON, with the CSRF token.
//
// A form or button with data-api="METHOD /path" sends its fields; data-then names where to go afterwards, data-reload the
// element (a selector) whose hx-get is asked again. A field with data-type="number", "boolean", "json" or "list" is sent so.
(() => {
  "use strict";

  const body = () => document.body;

  function tell(text, kind) {
    const place = document.getElementById("told");
    const line = document.createElement("p");
    line.className = kind || "note";
    line.textContent = text;
    place.replaceChildren(line);
    if (kind !== "fault") window.setTimeout(() => line.remove(), 6000);
  }

  class Refused extends Error {
    constructor(status, problem) {
      super(problem.detail || problem.title);
      this.status = status;
      this.problem = problem;
    }
  }

  async function api(method, path, value, headers) {
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers: {
          "X-CSRF-Token": body().dataset.csrf,
          ...(value === undefined ? {} : { "Content-Type": "application/json" }),
          ...headers,
        },
        body: value === undefined ? undefined : JSON.stringify(value),
        credentials: "same-origin",
        cache: "no-store",
      });
    } catch {
      throw new Refused(0, { detail: body().dataset.offline });
    }
    const text = await answer.text();
    const found = text && answer.headers.get("content-type")?.includes("json") ? JSON.parse(text) : { text };
    if (!answer.ok) throw new Refused(answer.status, found);
    return found;
  }

  function explain(error) {
    if (!(error instanceof Refused)) throw error;
    const fix = error.problem.diagnostics?.[0]?.fix;
    tell(fix ? `${error.message} – ${fix}` : error.message, "fault");
    if (error.status === 401 && !location.pathname.startsWith("/login")) {
      location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    }
  }

  const CAST = {
    number: Number,
    boolean: (text) => text === "true" || text === "on",
    json: (text) => JSON.parse(text),
    list: (text) => text.split(",").map((part) => part.trim()).filter(Boolean),
  };

  function valueOf(form, button) {
    const value = {};
    for (const field of form.elements) {
      if (!field.name || field.disabled || (field.type === "submit" && field !== button)) continue;
      if ((field.type === "checkbox" || field.type === "radio") && !field.checked) continue;
      if (field.value === "" && field.dataset.empty !== "keep") continue;
      const cast = CAST[field.dataset.type] || String;
      value[field.name] = cast(field.value);
    }
    return value;
  }

  async function send(source, value) {
    const [method, path] = source.dataset.api.split(" ", 2);
    if (source.dataset.confirm && !window.confirm(source.dataset.confirm)) return;
    source.setAttribute("aria-busy", "true");
    try {
      const headers = source.dataset.keyed ? { "Idempotency-Key": source.dataset.keyed } : {};
      const found = await api(method, path, value, headers);
      source.dispatchEvent(new CustomEvent("hive:done", { bubbles: true, detail: found }));
      if (source.dataset.reload) htmx.trigger(source.dataset.reload, "reload");
      if (source.dataset.then) {
        const where = source.dataset.then.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(found[name]));
        location.assign(where);
      } else if (source.dataset.done) tell(source.dataset.done);
    } catch (error) {
      source.dispatchEvent(new CustomEvent("hive:refused", { bubbles: true, detail: error }));
      explain(error);
    } finally {
      source.removeAttribute("aria-busy");
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.api) return;
    event.preventDefault();
    if (form.getAttribute("aria-busy") === "true") return;
    let value;
    try {
      value = valueOf(form, event.submitter);
    } catch (error) {
      tell(String(error), "fault");
      return;
    }
    send(form, value);
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-api]");
    if (!button || button.getAttribute("aria-busy") === "true") return;
    event.preventDefault();
    send(button, button.dataset.value ? JSON.parse(button.dataset.value) : undefined);
  });

  // Times stand in the page in UTC, and are shown in the reader's zone.
  function localTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.valueOf())) continue;
      time.dataset.local = "";
      time.title = time.dateTime;
      const year = at.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
      time.textContent = at.toLocaleString(undefined, { year, month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });
    }
  }

  // What is written in a field with data-draft="NAME" survives a reload, in this browser's session alone.
  function drafts(root) {
    for (const field of root.querySelectorAll("[data-draft]:not([data-drafted])")) {
      field.dataset.drafted = "";
      const name = `draft:${field.dataset.draft}`;
      if (!field.value) field.value = sessionStorage.getItem(name) || "";
      field.addEventListener("input", () => sessionStorage.setItem(name, field.value));
      field.form?.addEventListener("hive:done", () => sessionStorage.removeItem(name));
    }
  }

  function prepare(root) {
    localTimes(root);
    drafts(root);
    document.dispatchEvent(new CustomEvent("hive:shown", { detail: root }));
  }

  document.addEventListener("DOMContentLoaded", () => prepare(document));
  document.addEventListener("htmx:after:swap", () => prepare(document));

  window.hive = { api, explain, tell };
})();

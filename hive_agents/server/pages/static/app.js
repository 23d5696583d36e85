// Shared by all pages: requests to the API as JSON with the CSRF token, messages, sign-in, drafts and local times.
//
// A form or button with data-api="METHOD /path" sends its fields; data-then is the address to open afterwards,
// data-reload the selector of an element to trigger "reload" on. A field with data-type="number", "boolean", "json" or
// "list" is sent as such, one with "question" as the input of a run. A choice with data-also sends its fields, too.
(() => {
  "use strict";

  const body = () => document.body;

  const MESSAGE = 96; // what a message takes at the window's lower edge

  // How much of the window's lower edge a bar with a form covers that sticks to it, or stands near it where a page ends.
  function aboveBar() {
    const whole = window.innerHeight;
    const boxes = [...document.querySelectorAll(".ask, #batch")].map((bar) => bar.getBoundingClientRect());
    const stuck = boxes.filter((box) => box.height && box.top < whole && box.bottom > whole - MESSAGE);
    return whole - Math.min(whole, ...stuck.map((box) => box.top));
  }

  function tell(text, kind) {
    const place = document.getElementById("told");
    const line = document.createElement("p");
    line.className = kind || "note";
    line.textContent = text;
    place.style.bottom = `${aboveBar() + 16}px`;
    place.replaceChildren(line);
    if (kind !== "fault") window.setTimeout(() => line.remove(), 6000);
  }

  // Removes the message of an earlier action.
  const hush = () => document.getElementById("told").replaceChildren();

  // A message for the next page.
  const NEXT = "told:next";
  const tellNext = (text) => sessionStorage.setItem(NEXT, text);

  function tellKept() {
    const text = sessionStorage.getItem(NEXT);
    sessionStorage.removeItem(NEXT);
    if (text) tell(text);
  }

  class Refused extends Error {
    constructor(status, problem, about) {
      const detail = problem.detail || problem.title;
      super(about ? `${about}: ${detail}` : detail);
      this.status = status;
      this.problem = problem;
    }
  }

  // The server's messages are English; the title of the code precedes them in the page's language.
  let codes = null;

  async function aboutOf(code) {
    if (!code || !body().dataset.codes) return undefined;
    try {
      codes ??= await (await fetch(body().dataset.codes)).json();
    } catch {
      return undefined; // the message is shown in English alone
    }
    return codes[code];
  }

  const named = (who) => `${encodeURIComponent(who.tenant)}/${encodeURIComponent(who.user)}`;

  // Another tab may have signed in meanwhile: its session is used here if it is the same person's.
  async function renewed() {
    const before = body().dataset.csrf;
    const now = await api("GET", "/api/session");
    if (named(now) !== body().dataset.me) throw new Refused(403, { detail: body().dataset.other });
    body().dataset.csrf = now.csrf;
    return now.csrf !== before;
  }

  async function api(method, path, value, headers) {
    let answer;
    try {
      answer = await fetch(path, {
        method,
        headers: {
          "X-CSRF-Token": body().dataset.csrf,
          ...(value === undefined || value instanceof FormData ? {} : { "Content-Type": "application/json" }),
          ...headers,
        },
        body: value === undefined || value instanceof FormData ? value : JSON.stringify(value),
        credentials: "same-origin",
        cache: "no-store",
      });
    } catch {
      throw new Refused(0, { detail: body().dataset.offline });
    }
    const text = await answer.text();
    const found = text && answer.headers.get("content-type")?.includes("json") ? JSON.parse(text) : { text };
    if (answer.status === 403 && method !== "GET" && body().dataset.me && (await renewed())) {
      return api(method, path, value, headers);
    }
    if (!answer.ok) throw new Refused(answer.status, found, await aboutOf(found.code));
    return found;
  }

  function explain(error) {
    if (!(error instanceof Refused)) throw error;
    const fix = error.problem.diagnostics?.[0]?.fix;
    tell(fix ? `${error.message} – ${fix}` : error.message, "fault");
    if (error.status === 401) signedOut();
  }

  // A dialog to sign in again over the page as it is; for another person signIn reloads the page.
  function signedOut() {
    const dialog = document.getElementById("signed-out");
    if (!dialog || dialog.open) return;
    dialog.showModal();
    document.dispatchEvent(new CustomEvent("hive:left"));
  }

  async function signIn(form) {
    const fault = form.querySelector("[role=alert]");
    form.setAttribute("aria-busy", "true");
    try {
      await api("POST", "/login", { token: form.elements.token.value });
      const now = await api("GET", "/api/session");
      if (named(now) !== body().dataset.me) {
        location.reload();
        return;
      }
      body().dataset.csrf = now.csrf;
      fault.textContent = "";
      form.reset();
      back();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      fault.textContent = error.message;
    } finally {
      form.removeAttribute("aria-busy");
    }
  }

  function back() {
    document.getElementById("told").replaceChildren();
    document.getElementById("signed-out").close();
    document.dispatchEvent(new CustomEvent("hive:signed-in"));
  }

  document.addEventListener("hive:signed-out", signedOut);
  document.addEventListener("hive:signed-in-elsewhere", () => {
    if (document.getElementById("signed-out").open) renewed().then(back).catch(() => {});
  });

  const CAST = {
    number: Number,
    boolean: (text) => text === "true" || text === "on",
    json: (text) => JSON.parse(text),
    question: (text) => ({ text }),
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
      Object.assign(value, JSON.parse(field.selectedOptions?.[0]?.dataset.also || "{}"));
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
        location.assign(found.leave || where); // signing out ends at the provider, where one was asked
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
    const sure = form.dataset.api ? "" : event.submitter?.dataset.confirm;
    if (sure && !window.confirm(sure)) {
      event.preventDefault();
      return;
    }
    if (!form.dataset.api && form.dataset.signIn === undefined) return;
    event.preventDefault();
    if (form.getAttribute("aria-busy") === "true") return;
    if (form.dataset.signIn !== undefined) {
      signIn(form);
      return;
    }
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

  // Pages have times in UTC; they are shown in the reader's time zone.
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

  // Drafts of one person are deleted when another one uses the tab.
  function forgetOthers() {
    const me = body().dataset.me;
    if (!me || sessionStorage.getItem("me") === me) return;
    sessionStorage.clear();
    sessionStorage.setItem("me", me);
  }

  // The text of a field with data-draft="NAME" survives a reload, in the browser's session alone.
  const draftOf = (field) => `draft:${field.dataset.draft}`;
  const restored = new WeakSet();

  function drafts(root) {
    for (const field of root.querySelectorAll("[data-draft]")) {
      if (restored.has(field)) continue;
      restored.add(field);
      if (!field.value) field.value = sessionStorage.getItem(draftOf(field)) || "";
    }
  }

  document.addEventListener("input", (event) => {
    if (event.target.dataset.draft) sessionStorage.setItem(draftOf(event.target), event.target.value);
  });

  document.addEventListener("hive:done", (event) => {
    for (const field of event.target.querySelectorAll("[data-draft]")) sessionStorage.removeItem(draftOf(field));
  });

  function prepare(root) {
    localTimes(root);
    drafts(root);
    document.dispatchEvent(new CustomEvent("hive:shown", { detail: root }));
  }

  document.addEventListener("DOMContentLoaded", () => {
    forgetOthers();
    tellKept();
    prepare(document);
  });
  document.addEventListener("htmx:after:swap", () => prepare(document));

  // A button with data-copy puts that on the clipboard, and says so (data-done), or that it may not (data-refused).
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      tell(button.dataset.done);
    } catch {
      tell(button.dataset.refused, "fault");
    }
  });

  window.hive = { aboutOf, api, explain, hush, localTimes, prepare, tell, tellNext };
})();

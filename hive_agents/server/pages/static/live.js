// What is shown is true: a stream names what changed, and what shows it is asked for again.
//
// An element with an id and data-live="KIND …" (or "KIND:ID") is exchanged for what the page has under its id now;
// `hive:changed` tells every other script. Nothing is asked for in a tab that nobody looks at; of several tabs one holds
// the stream and tells the others, since a browser has but six connections to a server.
(() => {
  "use strict";

  const LOOK = 30000; // what no event tells of: the time that is left, the host, what another process did
  const PAUSE = 700;
  const RETRY = 2000;
  const PATIENCE = 2500; // a stream that is back by then wasn't broken
  const shown = new WeakMap();
  let source = null;
  let away = false;
  let warning = null;
  let rung = [];
  let next = 0;
  let timer = null;
  let busy = false;

  const parts = () => [...document.querySelectorAll("[data-live]")];
  const rings = (kinds, change) => change.kind === "all"
    || kinds.split(" ").some((one) => one === change.kind || one === `${change.kind}:${change.id}`);

  function ring(change) {
    rung.push(change);
    if (timer === null && !busy) timer = window.setTimeout(look, Math.max(0, next - Date.now()));
  }

  async function look() {
    timer = null;
    if (document.hidden || away) return; // what rang is kept until somebody looks
    busy = true;
    const changes = rung;
    rung = [];
    try {
      document.dispatchEvent(new CustomEvent("hive:changed", { detail: changes }));
      if (parts().some((part) => changes.some((change) => rings(part.dataset.live, change)))) await renew();
    } catch {
      rung.unshift(...changes); // the server is away: the stream says when it is back
    } finally {
      busy = false;
      next = Date.now() + PAUSE;
      if (rung.length && warning === null) timer = window.setTimeout(look, PAUSE);
    }
  }

  async function renew() {
    const answer = await fetch(location.href, { headers: { "HX-Request": "true" }, credentials: "same-origin", cache: "no-store" });
    if (answer.status === 204) document.dispatchEvent(new CustomEvent("hive:signed-out"));
    if (answer.status !== 200) return;
    if (answer.headers.get("X-Hive-Me") !== document.body.dataset.me) {
      hive.tell(document.body.dataset.other, "fault");
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts()) {
      const now = page.getElementById(part.id);
      if (!now) continue;
      const text = now.outerHTML;
      if (shown.get(part) === text) continue;
      shown.set(part, text);
      hive.localTimes(now);
      const opened = [...part.querySelectorAll("details")].map((one) => one.open);
      [...now.querySelectorAll("details")].forEach((one, n) => { one.open = opened[n] ?? one.open; });
      await htmx.swap({ sourceElement: part, target: part, swap: "outerMorph", text: now.outerHTML });
    }
  }

  function broken(is) {
    const line = document.getElementById("broken");
    if (is) {
      warning ??= window.setTimeout(() => { line.hidden = false; }, PATIENCE);
      return;
    }
    window.clearTimeout(warning);
    warning = null;
    line.hidden = true;
  }

  const name = `hive:changes:${document.body.dataset.me}`;
  const tabs = new BroadcastChannel(name);
  let held = null;

  function tellAll(message) {
    tabs.postMessage(message);
    hear(message);
  }

  function hear(message) {
    if ("broken" in message) broken(message.broken);
    else if (message.signedIn) document.dispatchEvent(new CustomEvent("hive:signed-in-elsewhere"));
    else ring(message);
  }

  tabs.onmessage = (message) => hear(message.data);

  function listen() {
    if (held || document.hidden || away) return;
    held = deferred();
    const mine = held;
    window.setTimeout(() => { if (!source) ring({ kind: "all", id: null }); }, PAUSE); // another tab's stream doesn't begin
    const hold = () => {
      if (held !== mine) return undefined;
      open();
      return mine.promise;
    };
    if (navigator.locks) navigator.locks.request(name, hold);
    else hold();
  }

  function deferred() {
    const made = {};
    made.promise = new Promise((resolve) => { made.resolve = resolve; });
    return made;
  }

  function open() {
    source = new EventSource("/api/changes");
    source.onopen = () => tellAll({ broken: false });
    source.onmessage = (message) => tellAll(JSON.parse(message.data));
    source.onerror = () => {
      tellAll({ broken: true });
      if (source.readyState !== EventSource.CLOSED) return;
      source = null;
      settle();
    };
  }

  function leave() {
    source?.close();
    source = null;
    held?.resolve();
    held = null;
    broken(false);
  }

  // The stream is refused: whoever is signed out is asked to sign in, a server that isn't ready is asked again.
  async function settle() {
    try {
      await hive.api("GET", "/api/session");
      window.setTimeout(() => { if (held && !source) open(); }, RETRY);
    } catch (error) {
      if (error.status === 401) hive.explain(error);
      else window.setTimeout(() => { if (held && !source) settle(); }, RETRY);
    }
  }

  document.addEventListener("visibilitychange", () => { document.hidden ? leave() : listen(); });
  document.addEventListener("hive:left", () => { away = true; leave(); });
  document.addEventListener("hive:signed-in", () => {
    away = false;
    listen();
    tabs.postMessage({ signedIn: true });
  });
  window.setInterval(() => ring({ kind: "all", id: null }), LOOK);
  document.addEventListener("DOMContentLoaded", listen);
})();

// Keeps pages current: a stream names what changed, and the parts that show it are fetched again.
//
// An element with an id and data-live="KIND …" (or "KIND:ID") is replaced by the element with its id in the present
// page; other scripts get the event `hive:changed`. Hidden tabs fetch nothing. Of several tabs one holds the stream and
// informs the others, since a browser has only six connections to a server.
(() => {
  "use strict";

  const LOOK = 30000; // for changes without an event: remaining times, the host, other processes
  const PAUSE = 700;
  const RETRY = 2000;
  const PATIENCE = 2500; // a stream that reconnects within this time isn't reported as broken
  const shown = new WeakMap();
  let source = null;
  let away = false;
  let warning = null;
  let pending = [];
  let next = 0;
  let timer = null;
  let busy = false;

  const parts = () => [...document.querySelectorAll("[data-live]")];
  const concerns = (kinds, change) => change.kind === "all"
    || kinds.split(" ").some((one) => one === change.kind || one === `${change.kind}:${change.id}`);

  function ring(change) {
    pending.push(change);
    if (timer === null && !busy) timer = window.setTimeout(look, Math.max(0, next - Date.now()));
  }

  async function look() {
    timer = null;
    if (document.hidden || away) return; // changes are kept until the tab is shown
    busy = true;
    const changes = pending;
    pending = [];
    try {
      document.dispatchEvent(new CustomEvent("hive:changed", { detail: changes }));
      if (parts().some((part) => changes.some((change) => concerns(part.dataset.live, change)))) await renew();
    } catch {
      pending.unshift(...changes); // the server is unreachable: the stream reports when it is back
    } finally {
      busy = false;
      next = Date.now() + PAUSE;
      if (pending.length && warning === null) timer = window.setTimeout(look, PAUSE);
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

  function broken(isBroken) {
    const line = document.getElementById("broken");
    if (isBroken) {
      warning ??= window.setTimeout(() => { line.hidden = false; }, PATIENCE);
      return;
    }
    window.clearTimeout(warning);
    warning = null;
    line.hidden = true;
  }

  const name = `hive:changes:${document.body.dataset.me}`;
  const tabs = new BroadcastChannel(name);
  let lock = null;

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
    if (lock || document.hidden || away) return;
    lock = deferred();
    const own = lock;
    window.setTimeout(() => { if (!source) ring({ kind: "all", id: null }); }, PAUSE); // where another tab holds the stream
    const hold = () => {
      if (lock !== own) return undefined;
      open();
      return own.promise;
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
    lock?.resolve();
    lock = null;
    broken(false);
  }

  // The stream was refused: ask to sign in where the session ended, else try again.
  async function settle() {
    try {
      await hive.api("GET", "/api/session");
      window.setTimeout(() => { if (lock && !source) open(); }, RETRY);
    } catch (error) {
      if (error.status === 401) hive.explain(error);
      else window.setTimeout(() => { if (lock && !source) settle(); }, RETRY);
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

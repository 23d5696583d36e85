// Deciding: each answer names the content that was read, a quicker colleague is told in words, nothing typed is lost.
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

  // What somebody else did meanwhile, above the forms, which stay as they are.
  async function tellConflict(article) {
    const { request } = await hive.api("GET", `/api/approvals/${encodeURIComponent(article.dataset.request)}`);
    const last = request.decisions.at(-1);
    const words = article.dataset;
    let text = null;
    if (request.status !== "pending" && last) {
      text = filled(words[last.verb], { who: last.by.replace(/^user:/, ""), when: ago(last.at) });
    } else if (request.status !== "pending") {
      text = filled(words.over, { status: request.status });
    } else if (request.content_hash !== words.hash) {
      text = words.changed;
    }
    if (text === null) return false;
    const place = article.querySelector("#conflict");
    if (place.dataset.told === text.replace(/\d+/g, "")) return true;
    place.dataset.told = text.replace(/\d+/g, "");
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

  // Only what was changed: RFC 6902 on the arguments. An empty field that was absent stays absent.
  function patchOf(form) {
    const steps = [];
    for (const field of form.querySelectorAll("[data-arg]")) {
      const { arg, widget, was } = field.dataset;
      if (field.value === "" && (was === undefined || widget !== "text")) {
        if (was !== undefined) steps.push({ op: "remove", path: pointer(arg) });
        continue;
      }
      const value = CAST[widget](field.value);
      if (was !== undefined && JSON.stringify(JSON.parse(was)) === JSON.stringify(value)) continue;
      steps.push({ op: was === undefined ? "add" : "replace", path: pointer(arg), value });
    }
    return steps;
  }

  async function decide(form) {
    const article = form.closest("[data-request]");
    const verb = form.dataset.decide;
    const answer = { verb, version: Number(article.dataset.version), content_hash: article.dataset.hash };
    for (const name of ["reason", "message"]) {
      const given = form.elements[name]?.value.trim();
      if (given) answer[name] = given;
    }
    if (form.elements.for_run?.checked) answer.for_run = true;
    if (verb === "edit") {
      try {
        answer.patch = patchOf(form);
      } catch (error) {
        hive.tell(String(error), "fault");
        return;
      }
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
    if (option) option.form.elements.message.value = option.dataset.option;
    const batch = event.target.closest("[data-batch]");
    if (batch) decideAll(batch);
  });

  // The queue: what is chosen is decided as it was shown, each for itself.
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
    for (const row of chosen()) {
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
    hive.tell(failed ? filled(words.partly, { n: failed }) : words.done, failed ? "fault" : "note");
    if (!failed) {
      sessionStorage.removeItem("draft:approvals-batch");
      window.setTimeout(() => location.reload(), 800);
    }
  }

  // Keys: in the queue j and k go, x chooses, Enter opens; in a request a, r, e and m go to the answer, which Enter gives.
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

  // Whoever looks at a request hears that it was decided before they answer.
  window.setInterval(() => {
    const article = document.getElementById("request");
    if (article && article.dataset.status === "pending" && !document.hidden) tellConflict(article).catch(() => {});
  }, 5000);
})();

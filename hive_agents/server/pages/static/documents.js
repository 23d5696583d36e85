// Uploads: files that are dropped or chosen become rows at once, which go uploading → converting → indexed or failed.
// A form with data-change sends a document's changed fields.
(() => {
  "use strict";

  const AT_ONCE = 50;
  const DONE = 4000; // how long a row that succeeded stays
  const SUM = "hive:uploads"; // what came of them, for the page that is opened next
  const zone = () => document.getElementById("drop");
  const list = () => document.getElementById("uploads");
  const words = () => JSON.parse(zone().dataset.words);

  function show(row, status, message) {
    row.dataset.status = status;
    const badge = row.querySelector(".badge");
    badge.textContent = words()[status];
    sum();
    badge.className = `badge ${status === "indexed" ? "good" : status === "failed" ? "bad" : status === "skipped" ? "warn" : "soft"}`;
    let why = row.querySelector(".why");
    if (!message) {
      why?.remove();
      return;
    }
    why ??= row.appendChild(Object.assign(document.createElement("p"), { className: "why bad", lang: "en" }));
    why.textContent = message;
  }

  // What came of all files, above their rows: of a folder there are too many rows to be looked through.
  function sum() {
    const rows = [...list().children];
    const of = (...statuses) => rows.filter((row) => statuses.includes(row.dataset.status)).length;
    const [ready, left, all] = [of("indexed"), of("failed", "skipped"), rows.length];
    const over = ready > 0 && ready + left === all;
    const place = document.getElementById("uploads-sum");
    place.classList.toggle("hidden", all < 2 && !over);
    place.querySelector("[data-next]")?.toggleAttribute("hidden", !over);
    const words = zone().dataset.sum.replace("{n}", ready).replace("{all}", all);
    const text = left ? `${words} · ${zone().dataset.sumLeft.replace("{n}", left)}` : words;
    const line = place.querySelector("[data-sum]");
    if (line.textContent !== text) line.textContent = text;
    Object.assign(place.querySelector("progress"), { max: all || 1, value: ready + left, hidden: over });
  }

  function rowOf(name) {
    const row = document.createElement("li");
    const title = Object.assign(document.createElement("span"), { className: "grow", textContent: name });
    row.dataset.file = name;
    row.append(title, Object.assign(document.createElement("span"), { className: "badge" }));
    list().prepend(row);
    show(row, "uploading");
    return row;
  }

  // The stream reconnects by itself; a row whose import is over is not followed any more.
  function follow(events, rows) {
    const source = new EventSource(events);
    source.onmessage = (event) => {
      const made = JSON.parse(event.data);
      made.files.forEach((file, number) => {
        const row = rows.find((one) => one.dataset.file === file.name) || rows[number];
        if (row && row.dataset.status !== file.status) show(row, file.status, file.message);
      });
      if (!made.ended_at) return;
      source.close();
      ended();
    };
  }

  // Another page would end what is still on its way: that comes after the last file.
  function ended() {
    const rows = [...list().children];
    const fine = rows.filter((row) => row.dataset.status === "indexed").length;
    if (rows.some((row) => ["uploading", "waiting", "converting"].includes(row.dataset.status))) return;
    const told = zone().dataset.told.replace("{n}", fine).replace("{all}", rows.length);
    const then = zone().dataset.then;
    if (then && fine) {
      // The list of documents has what failed, too, with its reason.
      const there = fine === rows.length || then === location.pathname ? then : "/documents";
      if (there === "/documents") sessionStorage.setItem(SUM, document.querySelector("#uploads-sum [data-sum]").textContent);
      hive.tellNext(told);
      location.assign(there);
      return;
    }
    hive.tell(told);
    if (document.getElementById("documents")) window.setTimeout(() => rows.forEach((row) => row.remove()), DONE);
  }

  async function upload(files) {
    const most = Number(zone().dataset.most);
    const sent = [];
    for (const file of files) {
      const row = rowOf(file.path);
      if (file.blob.size > 0.98 * most) show(row, "failed", zone().dataset.large);
      else sent.push({ ...file, row });
    }
    while (sent.length) {
      const batch = [];
      let size = 0;
      while (sent.length && batch.length < AT_ONCE && (batch.length === 0 || size + sent[0].blob.size < 0.9 * most)) {
        size += sent[0].blob.size;
        batch.push(sent.shift());
      }
      await send(batch);
    }
  }

  async function send(batch) {
    const form = new FormData();
    for (const file of batch) form.append("file", file.blob, file.path);
    const folder = document.getElementById("upload-folder").value.trim();
    const grants = document.getElementById("upload-grants")?.value;
    if (folder) form.append("folder", folder);
    if (grants) form.append("grants", JSON.stringify([grants]));
    const rows = batch.map((file) => file.row);
    try {
      const made = await hive.api("POST", "/api/documents", form);
      rows.forEach((row) => show(row, "waiting"));
      follow(made.events, rows);
    } catch (error) {
      rows.forEach((row) => show(row, "failed", error.message));
      hive.explain(error);
      ended();
    }
  }

  const given = (file) => ({ path: file.webkitRelativePath || file.name, blob: file });

  // A folder's entries come in pieces, the last of which is empty.
  async function within(entry) {
    if (entry.isFile) {
      const file = await new Promise((done, fail) => entry.file(done, fail));
      return [{ path: entry.fullPath.replace(/^\//, ""), blob: file }];
    }
    const reader = entry.createReader();
    const found = [];
    for (;;) {
      const piece = await new Promise((done, fail) => reader.readEntries(done, fail));
      if (!piece.length) return (await Promise.all(found.map(within))).flat();
      found.push(...piece);
    }
  }

  document.addEventListener("change", (event) => {
    if (event.target.type !== "file" || !event.target.closest("#drop")) return;
    upload([...event.target.files].map(given));
    event.target.value = "";
  });

  // Files may be dropped anywhere on the page.
  const brings = (event) => zone() && event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    zone().dataset.over = "";
  });
  document.addEventListener("dragleave", (event) => {
    if (zone() && !event.relatedTarget) delete zone().dataset.over;
  });
  document.addEventListener("drop", async (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    delete zone().dataset.over;
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = [...event.dataTransfer.files].map(given);
    upload(entries.some((entry) => entry.isDirectory) ? (await Promise.all(entries.map(within))).flat() : files);
  });

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.dataset.change) return;
    event.preventDefault();
    const listed = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);
    const fields = {};
    for (const field of form.querySelectorAll("[data-field]")) {
      if (field.value === field.dataset.was) continue;
      const value = field.dataset.listed === undefined ? field.value.trim() : listed(field.value);
      fields[field.dataset.field] = value.length ? value : null;
    }
    const name = document.getElementById("new-name").value.trim();
    if (name) fields[name] = document.getElementById("new-value").value.trim() || null;
    const grants = document.getElementById("grants");
    const change = { fields, ...(grants && grants.value !== grants.dataset.was ? { grants: listed(grants.value) } : {}) };
    if (!Object.keys(fields).length && !change.grants) {
      hive.tell(form.dataset.unchanged);
      return;
    }
    form.setAttribute("aria-busy", "true");
    try {
      await hive.api("PATCH", form.dataset.change, change);
      hive.tellNext(form.dataset.changed);
      location.reload();
    } catch (error) {
      form.removeAttribute("aria-busy");
      hive.explain(error);
    }
  });

  document.addEventListener("DOMContentLoaded", () => {
    if (!zone()) return;
    const open = [...list().querySelectorAll("[data-import]")];
    const before = sessionStorage.getItem(SUM);
    sessionStorage.removeItem(SUM);
    sum();
    if (before && !open.length) {
      const place = document.getElementById("uploads-sum");
      place.classList.remove("hidden");
      place.querySelector("[data-sum]").textContent = before;
      place.querySelector("progress").hidden = true;
      place.querySelector("[data-next]")?.removeAttribute("hidden");
    }
    for (const id of new Set(open.map((row) => row.dataset.import))) {
      follow(`/api/imports/${encodeURIComponent(id)}/events`, open.filter((row) => row.dataset.import === id));
    }
  });
})();

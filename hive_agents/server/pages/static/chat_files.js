// Files that are dropped into the conversation or chosen: each is a chip that goes uploading → converting → ready or
// failed, with the reason. Only this conversation searches them.
(() => {
  "use strict";

  const BUSY = 2000; // how long is waited while the server reads another file
  const TRIES = 60;
  const list = () => document.getElementById("dropped");
  const chat = () => document.getElementById("chat");
  const path = () => `/api/threads/${encodeURIComponent(chat().dataset.thread)}/files`;

  function show(chip, status, why) {
    chip.dataset.status = status;
    const badge = chip.querySelector(".badge");
    badge.textContent = JSON.parse(list().dataset.words)[status];
    badge.className = `badge ${{ ready: "good", failed: "bad" }[status] || "soft"}`;
    if (why) chip.querySelector(".why").textContent = why;
  }

  function chipOf(name) {
    const chip = Object.assign(document.createElement("li"), { className: "chip" });
    const part = (className, textContent = "") => Object.assign(document.createElement("span"), { className, textContent });
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: "×" });
    button.setAttribute("aria-label", list().dataset.remove.replace("{name}", () => name));
    const why = part("why bad");
    why.lang = "en";
    chip.append(part("name", name), part("badge"), why, button);
    list().append(chip);
    show(chip, "uploading");
    return chip;
  }

  // A file needs a conversation: the first one begins it, and the page becomes its page.
  async function begin() {
    const { thread_id: id } = await hive.api("POST", "/api/threads");
    chat().dataset.thread = id;
    chat().dataset.begun = "";
    history.replaceState(history.state, "", `/chat/${encodeURIComponent(id)}`);
    for (const [before, after] of [["asked:new", `asked:${id}`], ["draft:chat:new", `draft:chat:${id}`]]) {
      const kept = sessionStorage.getItem(before);
      sessionStorage.removeItem(before);
      if (kept !== null) sessionStorage.setItem(after, kept);
    }
    document.getElementById("text").dataset.draft = `chat:${id}`;
  }

  // Unlike fetch, this tells when all has been sent. Where the CSRF token is old, `hive.api` gets another one.
  function send(form, sent) {
    return new Promise((done, fail) => {
      const request = new XMLHttpRequest();
      request.open("POST", path());
      request.setRequestHeader("X-CSRF-Token", document.body.dataset.csrf);
      request.upload.addEventListener("load", sent);
      request.addEventListener("error", () => fail({ status: 0, message: document.body.dataset.offline }));
      request.addEventListener("load", () => {
        if (request.status === 403) hive.api("POST", path(), form).then(done, fail);
        else if (request.status < 300) done(JSON.parse(request.responseText));
        else fail({ status: request.status, message: reason(request) });
      });
      request.send(form);
    });
  }

  function reason(request) {
    try {
      const told = JSON.parse(request.responseText);
      return told.detail || told.title;
    } catch {
      return String(request.status);
    }
  }

  async function upload(file, chip) {
    const form = new FormData();
    form.append("file", file, file.name);
    for (let tries = 1; ; tries += 1) {
      try {
        return await send(form, () => show(chip, "converting"));
      } catch (error) {
        if (error.status !== 503 || tries === TRIES) throw error;
        await new Promise((done) => { window.setTimeout(done, BUSY); });
      }
    }
  }

  // One after the other, since the server reads one file at a time.
  let before = Promise.resolve();

  function add(files) {
    for (const file of files) {
      const chip = chipOf(file.name);
      before = before.then(() => added(file, chip));
    }
  }

  async function added(file, chip) {
    if (!chip.isConnected) return;
    if (file.size > 0.98 * Number(list().dataset.most)) {
      show(chip, "failed", list().dataset.large);
      return;
    }
    try {
      if (!chat().dataset.thread) await begin();
      const found = await upload(file, chip);
      for (const other of list().querySelectorAll(".chip[data-file]")) {
        if (other.querySelector(".name").textContent === found.name) other.remove(); // it was replaced
      }
      chip.dataset.file = found.file_id;
      chip.querySelector(".name").textContent = found.name;
      show(chip, "ready");
      if (!chip.isConnected) await hive.api("DELETE", `${path()}/${encodeURIComponent(found.file_id)}`);
    } catch (error) {
      show(chip, "failed", error.message);
      if (error.status === 401) document.dispatchEvent(new CustomEvent("hive:signed-out"));
    }
  }

  // Answers that quoted a file which is gone are shown without it.
  async function renew() {
    const quoting = [...document.querySelectorAll("article[data-turn]")].filter((one) => one.querySelector(".own-file"));
    await Promise.all(quoting.map((article) => (
      htmx.ajax("GET", article.dataset.turn, { source: article, target: article, swap: "outerHTML" })
    )));
  }

  async function remove(chip) {
    try {
      if (chip.dataset.file) await hive.api("DELETE", `${path()}/${encodeURIComponent(chip.dataset.file)}`);
      chip.remove();
      if (chip.dataset.file) await renew();
      document.getElementById("text").focus();
    } catch (error) {
      hive.explain(error);
    }
  }

  document.addEventListener("change", (event) => {
    if (event.target.id !== "drop-files") return;
    add([...event.target.files]);
    event.target.value = "";
    document.getElementById("text").focus();
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("#dropped button");
    if (button) remove(button.closest(".chip"));
  });

  // Files may be dropped anywhere on the page.
  const brings = (event) => list() && event.dataTransfer?.types.includes("Files");
  const over = (is) => document.getElementById("ask").toggleAttribute("data-over", is);
  document.addEventListener("dragover", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    over(true);
  });
  document.addEventListener("dragleave", (event) => { if (list() && !event.relatedTarget) over(false); });
  document.addEventListener("drop", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    over(false);
    add([...event.dataTransfer.files]);
  });
})();

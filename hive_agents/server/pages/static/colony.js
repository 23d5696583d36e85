// The colony: starting agents, asking the queen, and clearing message fields once they are sent.
(() => {
  "use strict";

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("[data-queen]")) return;
    event.preventDefault();
    if (form.getAttribute("aria-busy") === "true") return;
    form.setAttribute("aria-busy", "true");
    try {
      const reply = await hive.api("POST", "/api/queen/messages", { text: form.elements.text.value });
      document.getElementById("queen-answer").textContent = reply.answer;
      form.dispatchEvent(new CustomEvent("hive:done", { bubbles: true }));
    } catch (error) {
      hive.explain(error);
    } finally {
      form.removeAttribute("aria-busy");
    }
  });

  // A text that begins as a JSON array or object is sent as such, everything else as text.
  const inputOf = (text) => {
    try {
      return /^\s*[[{]/.test(text) ? JSON.parse(text) : text;
    } catch {
      return text;
    }
  };

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("[data-start]")) return;
    event.preventDefault();
    if (form.getAttribute("aria-busy") === "true") return;
    form.setAttribute("aria-busy", "true");
    try {
      const input = Object.fromEntries([...form.querySelectorAll("textarea")].map((field) => [field.name, inputOf(field.value)]));
      const run = await hive.api("POST", "/api/runs", { graph: "event_loop", agent: form.dataset.start, input });
      form.dispatchEvent(new CustomEvent("hive:done", { bubbles: true }));
      location.assign(`/colony/runs/${encodeURIComponent(run.run_id)}`);
    } catch (error) {
      hive.explain(error);
    } finally {
      form.removeAttribute("aria-busy");
    }
  });

  // Two runs are compared: with fewer or more chosen there is nothing to press.
  function two() {
    for (const button of document.querySelectorAll("[data-two]")) {
      button.disabled = button.form.querySelectorAll("[name=run]:checked").length !== 2;
    }
  }
  document.addEventListener("change", two);
  document.addEventListener("hive:shown", two);

  // A field is cleared only where it still has the text that was sent.
  const fieldsToClear = (event) => [...event.target.querySelectorAll("[data-clear]")];
  document.addEventListener("submit", (event) => {
    if (event.target.getAttribute("aria-busy") === "true") return;
    for (const field of fieldsToClear(event)) field.dataset.sent = field.value;
  }, true);
  document.addEventListener("hive:done", (event) => {
    for (const field of fieldsToClear(event)) if (field.value === field.dataset.sent) field.value = "";
  });
})();

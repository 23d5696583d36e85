// Agents are started; the queen's answers stand beside her; what was said to an agent leaves its field.
(() => {
  "use strict";

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("[data-queen]")) return;
    event.preventDefault();
    if (form.getAttribute("aria-busy") === "true") return;
    form.setAttribute("aria-busy", "true");
    try {
      const found = await hive.api("POST", "/api/queen/messages", { text: form.elements.text.value });
      document.getElementById("queen-answer").textContent = found.answer;
      form.dispatchEvent(new CustomEvent("hive:done", { bubbles: true }));
    } catch (error) {
      hive.explain(error);
    } finally {
      form.removeAttribute("aria-busy");
    }
  });

  // What is written as a list or an object of JSON is given as such, everything else as text.
  const given = (text) => {
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
      const input = Object.fromEntries([...form.querySelectorAll("textarea")].map((field) => [field.name, given(field.value)]));
      const run = await hive.api("POST", "/api/runs", { graph: "event_loop", agent: form.dataset.start, input });
      form.dispatchEvent(new CustomEvent("hive:done", { bubbles: true }));
      location.assign(`/colony/runs/${encodeURIComponent(run.run_id)}`);
    } catch (error) {
      hive.explain(error);
    } finally {
      form.removeAttribute("aria-busy");
    }
  });

  // What was typed while the rest was sent is the next thing to say, and stays.
  const cleared = (event) => [...event.target.querySelectorAll("[data-clear]")];
  document.addEventListener("submit", (event) => {
    if (event.target.getAttribute("aria-busy") === "true") return;
    for (const field of cleared(event)) field.dataset.sent = field.value;
  }, true);
  document.addEventListener("hive:done", (event) => {
    for (const field of cleared(event)) if (field.value === field.dataset.sent) field.value = "";
  });
})();

// The queen's answers beside her; what was said to an agent leaves its field.
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

  document.addEventListener("hive:done", (event) => {
    for (const field of event.target.querySelectorAll("[data-clear]")) field.value = "";
  });
})();

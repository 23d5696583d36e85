// The dialog that finds pages, conversations, documents and runs (Ctrl or ⌘ with K), the one with the keys (?), and the
// choice between light and dark.
(() => {
  "use strict";

  const dialog = (name) => document.getElementById(name);
  const field = () => dialog("anything").querySelector("input");
  const links = () => [...dialog("anything").querySelectorAll("#anything-found a")];

  function open() {
    const shown = dialog("anything");
    if (shown.open || document.querySelector("dialog[open]")) return;
    shown.showModal();
    field().select();
    htmx.trigger(field(), "find");
  }

  // Arrows go from the field into the list, and around.
  function step(by) {
    const stops = [field(), ...links()];
    const now = stops.indexOf(document.activeElement);
    stops.at((Math.max(now, 0) + by) % stops.length).focus();
  }

  const writes = (place) => place.closest?.("input, textarea, select, [contenteditable]");

  document.addEventListener("keydown", (event) => {
    if (!dialog("anything")) return;
    if (event.key.toLowerCase() === "k" && (event.metaKey || event.ctrlKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      open();
    } else if (event.key === "?" && !writes(event.target) && !document.querySelector("dialog[open]")) {
      dialog("all-keys").showModal();
    } else if (dialog("anything").open && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      step(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && dialog("anything").open && event.target === field()) {
      event.preventDefault();
      links()[0]?.click();
    }
  });

  // The server reads the choice from a cookie, so that no page is first drawn in the other one.
  function choose(theme) {
    const kept = theme ? 31536000 : 0;
    document.cookie = `theme=${theme}; Path=/; SameSite=Strict; Max-Age=${kept}`;
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-find]")) {
      event.preventDefault();
      open();
    } else if (event.target.closest("[data-keys]")) dialog("all-keys").showModal();
    else if (event.target.matches("dialog[data-light]")) event.target.close(); // beside the dialog
  });

  document.addEventListener("change", (event) => {
    if (event.target.name === "theme") choose(event.target.value);
  });

  window.addEventListener("pageshow", () => dialog("anything")?.close());
})();

// Searches while somebody types: the part of the page that the form names is asked for again. Without this script the
// form does the same with its button.
"use strict";

for (const form of document.querySelectorAll("form[data-search-into]")) {
  const field = form.querySelector("input[type=search]");
  let waiting = 0;
  field.addEventListener("input", () => {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(() => {
      const asked = new URLSearchParams(new FormData(form));
      window.history.replaceState(null, "", `${form.getAttribute("action")}?${asked}`);
      document.dispatchEvent(new CustomEvent("slipway:refresh", { detail: { id: form.dataset.searchInto } }));
    }, 150);
  });
}

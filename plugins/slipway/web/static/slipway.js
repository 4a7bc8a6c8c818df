// What every page does: it knows when Airflow shows it in a frame, keeps its parts fresh, and says how old it is.
//
// A part that is to be kept fresh says so: <section id="…" data-refresh-s="5">. The page is asked for again, and the
// part that came replaces the part that is here, unless nothing has changed or somebody is typing in it. A page that
// says that it is old is asked for every two seconds until it is not. Without this script a page is complete; it is as
// old as it was when it was asked for.
"use strict";

const WHILE_OLD_MS = 2000;
const SLOWEST_REFRESH_MS = 10000;
const PAGE_LIMIT_MS = 15000;
const REST_S = 60;
const HEALTH_EVERY_MS = 5000;
const FIRST_HEALTH_MS = 1000;

if (window.top !== window) document.documentElement.classList.add("embedded");

const refreshing = new Map();
let answeredAt = Date.now();

async function askServer(address, headers) {
  const answer = await fetch(address, { headers: { "slipway-poll": "1", ...headers }, signal: AbortSignal.timeout(PAGE_LIMIT_MS) });
  if (answer.status === 401) {
    window.location.reload(); // leads to the login
    throw new Error("nobody is signed in");
  }
  if (!answer.ok) throw new Error(`answered ${answer.status}`);
  return answer;
}

function isOld() {
  return document.getElementById("age").childElementCount > 0;
}

function keepFresh(part) {
  const id = part.id;
  const periodMs = Number(part.dataset.refreshS ?? REST_S) * 1000;
  let failures = 0;
  let timer = 0;

  async function refresh() {
    window.clearTimeout(timer);
    if (!document.hidden) {
      try {
        const asked = window.location.href;
        const text = await (await askServer(asked)).text();
        // Another search may have begun meanwhile: its answer is on its way.
        if (asked === window.location.href) {
          if (!isInUse(document.getElementById(id))) replace(id, text);
          tellAge(text);
        }
        failures = 0;
        setStale(false);
      } catch {
        failures += 1;
        setStale(true);
      }
    }
    window.clearTimeout(timer);
    const usualMs = isOld() ? WHILE_OLD_MS : periodMs;
    timer = window.setTimeout(refresh, failures ? Math.min(SLOWEST_REFRESH_MS, usualMs * 2 ** failures) : usualMs);
  }
  timer = window.setTimeout(refresh, isOld() ? WHILE_OLD_MS : periodMs);
  refreshing.set(id, refresh);
}

function isInUse(here) {
  return here.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")
    || here.querySelector("dialog[open], :popover-open") !== null;
}

function replace(id, text) {
  const came = new DOMParser().parseFromString(text, "text/html").getElementById(id);
  const here = document.getElementById(id);
  if (came === null) return window.location.reload(); // it is another page now
  if (came.isEqualNode(here)) return;
  for (const one of here.querySelectorAll("details[open][id]")) {
    const same = came.querySelector(`#${CSS.escape(one.id)}`);
    if (same !== null) same.open = true;
  }
  const scrolled = [...here.querySelectorAll(".wide")].map((one) => one.scrollLeft);
  const focused = here.contains(document.activeElement) ? document.activeElement : null;
  here.replaceWith(came);
  [...came.querySelectorAll(".wide")].forEach((one, place) => { one.scrollLeft = scrolled[place] ?? 0; });
  if (focused !== null) sameElement(focused, came)?.focus({ preventScroll: true });
  document.dispatchEvent(new CustomEvent("slipway:fresh", { detail: { id } }));
}

// What somebody had come to by keyboard: the element of that id, or the link to the same place.
function sameElement(element, within) {
  if (element.id) return within.querySelector(`#${CSS.escape(element.id)}`);
  const place = element.getAttribute("href");
  return place && within.querySelector(`a[href="${CSS.escape(place)}"]`);
}

// The page that came says how old it is, also where somebody is typing in the part that is here.
function tellAge(text) {
  const came = new DOMParser().parseFromString(text, "text/html");
  put("age", came.getElementById("age"));
  put("health", came.getElementById("health"));
}

function put(id, came) {
  const here = document.getElementById(id);
  if (came !== null && here !== null && !came.isEqualNode(here)) here.replaceWith(came);
}

// Say since when the server has not answered, and keep back what would raise: nobody knows how things stand.
function setStale(isStale) {
  const note = document.getElementById("unanswered");
  if (isStale) {
    const since = new Date(answeredAt).toISOString().slice(11, 19);
    note.textContent = `The server has not answered since ${since} UTC, and this page shows data from then. It retries automatically. Releases and rollbacks continue without it.`;
  } else {
    answeredAt = Date.now();
  }
  note.hidden = !isStale;
  for (const one of document.querySelectorAll("button[data-needs-news]")) {
    if (isStale) one.setAttribute("aria-disabled", "true");
    else one.removeAttribute("aria-disabled");
  }
}

// The health of the parts, in the header; when one is back, the page is asked for at once.
async function lookAtHealth() {
  if (!document.hidden) {
    try {
      const before = document.getElementById("health")?.dataset.wrong;
      const text = await (await askServer(document.documentElement.dataset.root + "/health")).text();
      put("health", new DOMParser().parseFromString(text, "text/html").getElementById("health"));
      const wrong = document.getElementById("health")?.dataset.wrong;
      if (wrong !== before) for (const refresh of refreshing.values()) refresh();
    } catch {
      if (refreshing.size === 0 && document.getElementById("release") === null) setStale(true);
      window.setTimeout(lookAtHealth, HEALTH_EVERY_MS);
      return;
    }
    if (refreshing.size === 0 && document.getElementById("release") === null) setStale(false);
  }
  window.setTimeout(lookAtHealth, HEALTH_EVERY_MS);
}

// A page that could not be made is loaded again as soon as it can be.
async function retry() {
  try {
    await askServer(window.location.href);
    window.location.reload();
  } catch {
    window.setTimeout(retry, WHILE_OLD_MS);
  }
}

for (const part of document.querySelectorAll("[data-refresh-s][id]")) keepFresh(part);
if (isOld() && refreshing.size === 0 && document.getElementById("release") === null) keepFresh(document.getElementById("content"));
if (document.getElementById("age").dataset.retry !== undefined) window.setTimeout(retry, WHILE_OLD_MS);
if (document.getElementById("health") !== null) window.setTimeout(lookAtHealth, FIRST_HEALTH_MS);
document.addEventListener("slipway:refresh", (event) => refreshing.get(event.detail.id)?.());
document.addEventListener("slipway:acted", () => {
  for (const refresh of refreshing.values()) refresh();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) for (const refresh of refreshing.values()) refresh();
});

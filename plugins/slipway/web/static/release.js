// Keeps the page of a release fresh while the release is under way.
//
// Every two seconds it asks for one small document, which says whether anything has changed; only then it asks for the page
// and puts its parts in place. It stops when the release is over. Where the server does not answer it says since when,
// and asks less and less often. The countdown runs by itself.
"use strict";

const EVERY_MS = 2000;
const SLOWEST_MS = 10000;

const release = document.getElementById("release");
const voice = document.getElementById("voice"); // it stays in its place, so that what is new is read aloud, once
let stamp = release.dataset.stamp;
let silence = null;
let failures = 0;
let timer = 0;

async function look() {
  window.clearTimeout(timer);
  if (release.dataset.pulse === undefined) return;
  if (!document.hidden) {
    try {
      const pulse = await (await askServer(release.dataset.pulse)).json();
      const silent = pulse.silent_s !== null;
      if (pulse.stamp !== stamp || silent !== silence || pulse.problem !== "" || isOld()) {
        await refresh();
        silence = silent;
      }
      failures = 0;
      setStale(false);
    } catch {
      failures += 1;
      setStale(true);
    }
  }
  if (release.dataset.pulse !== undefined)
    timer = window.setTimeout(look, Math.min(SLOWEST_MS, EVERY_MS * 2 ** Math.min(failures, 4)));
}

async function refresh() {
  const text = await (await askServer(window.location.href)).text();
  const came = new DOMParser().parseFromString(text, "text/html");
  tellAge(text);
  const parts = [...came.querySelectorAll('[id^="part-"]')];
  const names = new Set(parts.map((part) => part.id));
  for (const part of release.querySelectorAll('[id^="part-"]')) if (!names.has(part.id)) part.remove();
  const asked = release.querySelector("dialog[open], :popover-open") !== null; // that part stays until it is closed
  let last = null;
  for (const part of parts) last = putPart(part, last);
  document.title = came.title;
  // The page says by itself what it is made of, and whether it is over: what the pulse has read may be newer.
  const state = came.getElementById("release").dataset;
  stamp = asked ? "" : state.stamp;
  if (state.pulse === undefined && !asked) delete release.dataset.pulse; // nothing will change: nobody asks any more
}

// Put a part in the place of the one that is here, or after the one before it; return what stands there now.
function putPart(part, last) {
  const here = document.getElementById(part.id);
  if (here === null) {
    if (last === null) release.prepend(part);
    else last.after(part);
    return part;
  }
  if (here.querySelector("dialog[open]") !== null || here.querySelector(":popover-open") !== null) return here;
  const before = document.getElementById("verdict").textContent;
  const open = [...here.querySelectorAll("details[open][id]")].map((one) => one.id);
  const focused = here.contains(document.activeElement) ? document.activeElement.id : "";
  here.replaceWith(part);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  const now = document.getElementById("verdict").textContent;
  if (now !== before) voice.textContent = now;
  return part;
}

function countDown() {
  for (const one of document.querySelectorAll("time[data-countdown]")) {
    const seconds = Math.round((Date.parse(one.dateTime) - Date.now()) / 1000);
    one.textContent = seconds <= 0 ? "now" : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  }
}

document.addEventListener("visibilitychange", () => document.hidden || look());
document.addEventListener("slipway:acted", () => {
  stamp = "";
  look();
});
window.setInterval(countDown, 1000);
countDown();
timer = window.setTimeout(look, EVERY_MS);

// Keeps the inbox fresh: it is put in place anew only where a question came or went, so that a report that somebody reads
// within it stays as it is. Once an answer was taken, its question disappears at once.
"use strict";

const INBOX_EVERY_MS = 5000;

function questionsOf(root) {
  return [...root.querySelectorAll("[data-question]")].map((one) => one.dataset.question).join("\n");
}

async function lookForQuestions() {
  const inbox = document.getElementById("questions");
  if (document.hidden || isInUse(inbox)) return;
  try {
    const text = await (await askServer(window.location.href)).text();
    const came = new DOMParser().parseFromString(text, "text/html");
    if (questionsOf(came) !== questionsOf(inbox)) {
      replace("questions", text);
      document.title = came.title;
    }
    setStale(false);
  } catch {
    setStale(true);
  }
}

document.addEventListener("slipway:acted", lookForQuestions);
window.setInterval(lookForQuestions, INBOX_EVERY_MS);

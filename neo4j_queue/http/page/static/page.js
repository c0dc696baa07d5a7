// Looks again every ten seconds, and shows what has changed. The page works without it: "Refresh" is a link.
"use strict";

const EVERY_MS = 10000;

async function lookAgain() {
  if (document.visibilityState !== "visible" || !document.querySelector(".live")) return;
  let answer;
  try {
    answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin" });
  } catch {
    return; // the server is being started again: the next look tells
  }
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll(".live")) {
    const other = fresh.getElementById(part.id);
    // Where a person is about to press something, nothing moves.
    if (other && !part.contains(document.activeElement)) part.replaceChildren(...other.childNodes);
  }
  document.title = fresh.title;
}

const box = document.getElementById("looks-again");
if (box) {
  box.closest("[hidden]").hidden = false;
  setInterval(() => box.checked && lookAgain(), EVERY_MS);
}

"use strict";

// The server renders; this replaces what changes, and keeps what the reader has opened and closed.
const main = document.querySelector("main");
const state = document.querySelector("#state");
const interval = 5000;
const toggled = new Map();

main.addEventListener("toggle", (event) => {
  if (event.target.id) toggled.set(event.target.id, event.target.open);
}, true);

function show(text, lost) {
  state.textContent = text;
  state.className = lost ? "lost" : "live";
}

async function refresh() {
  try {
    const response = await fetch("board", {cache: "no-store"});
    if (!response.ok) throw new Error(`status ${response.status}`);
    main.innerHTML = await response.text();
    for (const details of main.querySelectorAll("details")) {
      if (toggled.has(details.id)) details.open = toggled.get(details.id);
    }
    show(main.querySelector("[data-time]").dataset.time, main.querySelector(":scope > .banner.wrong"));
  } catch {
    show("no answer: does kubectl gateway dashboard still run?", true);
  }
}

async function follow() {
  if (!document.hidden) await refresh();
  setTimeout(follow, interval);
}

show(main.querySelector("[data-time]").dataset.time, false);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
setTimeout(follow, interval);

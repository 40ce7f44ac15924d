"use strict";
// Every page works without this script. It refreshes pages, continues searches, and moves the slider of the past.

const parsed = async (address) => {
  const answer = await fetch(address, {credentials: "same-origin", cache: "no-store"});
  return [answer, new DOMParser().parseFromString(await answer.text(), "text/html")];
};

// Pages that change: the part with the id "live" is replaced, unless somebody works in it.
const refresh = () => {
  const main = document.querySelector("main[data-refresh]");
  if (!main) return;
  const state = document.getElementById("live-state");
  const toggle = document.getElementById("live-toggle");
  const seconds = Number(main.dataset.refresh);
  let paused = false;
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    paused = !paused;
    toggle.textContent = paused ? "Resume" : "Pause";
    state.textContent = paused ? "updates are paused" : `updates every ${seconds} s`;
  });
  const busy = () => {
    const live = document.getElementById("live");
    const selection = document.getSelection();
    return paused || document.hidden || live.contains(document.activeElement) ||
      (selection && !selection.isCollapsed && live.contains(selection.anchorNode));
  };
  const update = async () => {
    if (!busy()) {
      try {
        const [, page] = await parsed(location.href);
        const fresh = page.getElementById("live");
        if (fresh && !busy()) document.getElementById("live").replaceWith(document.adoptNode(fresh));
        if (!paused) state.textContent = `updates every ${seconds} s`;
      } catch {
        state.textContent = "the console does not answer";
      }
    }
    setTimeout(update, seconds * 1000);
  };
  setTimeout(update, seconds * 1000);
};

// A search runs in slices: each answer has the address of the next one.
const search = async () => {
  const first = document.querySelector("#search[data-next]");
  if (!first) return;
  const state = document.getElementById("search-state");
  const progress = document.getElementById("search-progress");
  const rows = document.getElementById("search-rows");
  const stop = document.getElementById("search-stop");
  const link = document.getElementById("search-next");
  let next = first.dataset.next, bytes = Number(first.dataset.bytes), time = Number(first.dataset.seconds);
  let stopped = false;
  stop.hidden = false;
  stop.addEventListener("click", () => { stopped = true; stop.hidden = true; });
  while (next && !stopped) {
    let answer, page;
    try {
      [answer, page] = await parsed(next);
    } catch {
      state.textContent = "The console does not answer.";
      break;
    }
    const part = page.getElementById("search");
    if (!answer.ok || !part) {
      const alarm = page.querySelector(".alarm");
      state.textContent = alarm ? alarm.textContent : "The search ended with an error.";
      break;
    }
    bytes += Number(part.dataset.bytes);
    time += Number(part.dataset.seconds);
    rows.append(...[...page.getElementById("search-rows").children].map((row) => document.adoptNode(row)));
    progress.max = page.getElementById("search-progress").max;
    progress.value = page.getElementById("search-progress").value;
    next = part.dataset.next;
    if (next) link.href = next; else link.remove();
    stopped = stopped || rows.children.length >= 500;
    const rate = time > 0 ? `, ${(bytes / time / 1e6).toFixed(0)} MB/s` : "";
    state.textContent = `${rows.children.length} records found${next ? ", so far" : ""}; ` +
      `${(bytes / 1e6).toFixed(0)} MB read${rate}`;
  }
  stop.hidden = true;
};

const slider = () => {
  const range = document.getElementById("slider");
  if (!range) return;
  const text = document.getElementById("slider-text");
  range.addEventListener("input", () => {
    document.getElementById("at").value = range.value;
    text.textContent = `Offset ${range.value} of ${range.max}`;
  });
  range.addEventListener("change", () => document.getElementById("past").requestSubmit());
};

refresh();
search();
slider();

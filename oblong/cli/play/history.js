"use strict";
// The address holds the state, and the browser's history the states before it, so that Back is undo.

// What the address does not hold, by the step of the history: the table, and a note about it.
const visited = new Map();
let table = null, note = "", step = 0, newest = 0, written = "", timer, held = false;

function address() {
  const parts = [["m", state.models.join()], ["k", state.kernel], ["z", +state.standardize], ["f", +state.stretched],
    ...info.settings.map(([name]) => [name, short(state.settings[name])]),
    ["p", state.points.map(p => [short(p[0]), short(p[1]), p[2]].join()).join(";")]];
  if (state.classes.length) parts.push(["c", JSON.stringify(state.classes)]);
  if (state.axes.length) parts.push(["a", JSON.stringify(state.axes)]);
  const quote = v => encodeURIComponent(v).replace(/%2C/g, ",").replace(/%3B/g, ";");
  return "#" + parts.map(([k, v]) => k + "=" + quote(v)).join("&");
}
function write() {
  clearTimeout(timer);
  const text = address();
  if (!written) history.replaceState({step}, "", text);
  else if (text !== written) {
    newest = ++step;
    history.pushState({step}, "", text);
  }
  written = text;
  visited.set(step, {table, note});
  showSteps();
}
function writeSoon() {
  clearTimeout(timer);
  // A drag is one step, however long it takes.
  timer = setTimeout(() => {
    if (held) return writeSoon();
    write();
    if (document.activeElement !== $("text")) writeText();
  }, 150);
}
function showSteps() {
  $("undo").disabled = step === 0;
  $("redo").disabled = step >= newest;
}
function undo() { write(); if (step > 0) history.back(); }
function redo() { write(); if (step < newest) history.forward(); }
function rememberSteps() {
  step = newest = history.state?.step ?? 0;
  addEventListener("popstate", event => {
    clearTimeout(timer);
    // An address that was typed in has no step yet.
    step = event.state?.step ?? step + 1;
    newest = Math.max(newest, step);
    ({table, note} = visited.get(step) ?? {table: null, note: ""});
    written = "";
    state = read();
    show();
    write();
  });
  addEventListener("pointerdown", () => { held = true; }, true);
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { held = false; }, true);
  addEventListener("keydown", event => {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || event.altKey || !"zy".includes(key) || event.target === $("text")) return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) redo(); else undo();
  });
  $("undo").addEventListener("click", undo);
  $("redo").addEventListener("click", redo);
}
function names(text) {
  try {
    const list = JSON.parse(text);
    return Array.isArray(list) ? list.slice(0, info.most_classes).map(String) : [];
  } catch { return []; }
}
function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const known = info.models.map(m => m[0]), {points, wrong} = parsePoints((given.get("p") || "").replace(/;/g, "\n"), 0);
  if (wrong.length) note = `Of the points in the address, ${wrong.length} cannot be read, such as ${wrong[0].text}.`;
  const at = {settings: {}, models: (given.get("m") ?? "svm,rmm").split(",").filter(n => known.includes(n)),
    kernel: ["rbf", "poly"].includes(given.get("k")) ? given.get("k") : "linear",
    standardize: given.get("z") === "1", stretched: given.get("f") === "1",
    points, classes: names(given.get("c")), axes: names(given.get("a")).slice(0, 2)};
  for (const [name, , low, high, start] of info.settings) {
    const value = parseFloat(given.get(name) ?? "");
    at.settings[name] = value >= low && value <= high ? value : start;
  }
  return at;
}
// Points of lines "x, y, class", with classes counted from `first`, and the lines that are none.
function parsePoints(text, first) {
  const points = [], wrong = [];
  for (const [i, line] of text.split("\n").entries()) {
    const words = line.split(/[,;\t ]+/).filter(Boolean), p = words.map(Number), c = p[2] - first;
    if (!words.length) continue;
    const good = p.length === 3 && p.every(Number.isFinite) && Math.max(Math.abs(p[0]), Math.abs(p[1])) < 1e100
      && Number.isInteger(c) && c >= 0 && c < info.most_classes && points.length < info.most_points;
    if (good) points.push([p[0], p[1], c]); else wrong.push({line: i + 1, text: "“" + line.trim().slice(0, 40) + "”"});
  }
  return {points, wrong};
}

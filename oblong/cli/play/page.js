"use strict";
// The state is what the address holds; the picture and the controls follow from it.
const $ = id => document.getElementById(id);
const SIZE = 640, REACH = 11;
const token = new URLSearchParams(location.search).get("token") || "";
const MARKS = ["M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0", "M0-6L5.6 4.5H-5.6z", "M-4.6-4.6H4.6V4.6H-4.6z",
  "M0-6.2L6.2 0L0 6.2L-6.2 0z", "M0 6L5.6-4.5H-5.6z",
  "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2z"];
let info, state, view, table = null, cursor = [0.5, 0.5], selected = -1, taken = false, newClass = 0, note = "";

async function ask(path, node) {
  const reply = await fetch(path, {method: "POST", body: JSON.stringify(node),
    headers: {"Content-Type": "application/json", "X-Oblong-Token": token}});
  const answer = await reply.json();
  if (!reply.ok) throw new Error(answer.error);
  return answer;
}
const say = text => { $("said").textContent = text; };
const short = v => String(+v.toPrecision(5));
function element(tag, attributes, text) {
  const svg = ["path", "text", "svg", "g"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// The address ------------------------------------------------------------------------------------

function write() {
  const parts = [["m", state.models.join()], ["k", state.kernel], ["z", +state.standardize], ["f", +state.stretched],
    ...info.settings.map(([name]) => [name, short(state.settings[name])]),
    ["p", state.points.map(p => [short(p[0]), short(p[1]), p[2]].join()).join(";")]];
  if (state.classes.length) parts.push(["c", JSON.stringify(state.classes)]);
  if (state.axes.length) parts.push(["a", JSON.stringify(state.axes)]);
  const quote = v => encodeURIComponent(v).replace(/%2C/g, ",").replace(/%3B/g, ";");
  history.replaceState(null, "", "#" + parts.map(([k, v]) => k + "=" + quote(v)).join("&"));
}
function names(text) {
  try {
    const list = JSON.parse(text);
    return Array.isArray(list) ? list.slice(0, info.most_classes).map(String) : [];
  } catch { return []; }
}
function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const known = info.models.map(m => m[0]);
  const at = {settings: {}, models: (given.get("m") ?? "svm,rmm").split(",").filter(n => known.includes(n)),
    kernel: ["rbf", "poly"].includes(given.get("k")) ? given.get("k") : "linear",
    standardize: given.get("z") === "1", stretched: given.get("f") === "1",
    points: parsePoints((given.get("p") || "").replace(/;/g, "\n"), 0),
    classes: names(given.get("c")), axes: names(given.get("a")).slice(0, 2)};
  for (const [name, , low, high, start] of info.settings) {
    const value = parseFloat(given.get(name) ?? "");
    at.settings[name] = value >= low && value <= high ? value : start;
  }
  return at;
}
function parsePoints(text, first) {
  return text.split("\n").map(line => line.split(/[,;\t ]+/).filter(Boolean).map(Number))
    .filter(p => p.length === 3 && p.every(Number.isFinite))
    .map(p => [p[0], p[1], p[2] - first])
    .filter(p => Number.isInteger(p[2]) && p[2] >= 0 && p[2] < info.most_classes
      && Math.abs(p[0]) < 1e100 && Math.abs(p[1]) < 1e100).slice(0, info.most_points);
}

// Coordinates ------------------------------------------------------------------------------------

function stretchMap() {
  const t = state.settings.angle * Math.PI / 180, c = Math.cos(t), s = Math.sin(t);
  return f => ([x, y]) => { const a = (f - 1) * (c * x + s * y); return [x + a * c, y + a * s]; };
}
const shown = p => state.stretched ? stretchMap()(state.settings.stretch)(p) : p;
const unshown = p => state.stretched ? stretchMap()(1 / state.settings.stretch)(p) : p;
const toScreen = ([x, y]) => [(x - view[0]) / (view[1] - view[0]) * SIZE, (view[3] - y) / (view[3] - view[2]) * SIZE];
const fromScreen = ([u, v]) => [view[0] + u / SIZE * (view[1] - view[0]), view[3] - v / SIZE * (view[3] - view[2])];
function fitView() {
  const seen = state.points.map(shown), range = i => {
    const values = seen.map(p => p[i]);
    return values.length ? [Math.min(...values), Math.max(...values)] : [-1, 1];
  };
  let half = [0, 1].map(i => (range(i)[1] - range(i)[0]) / 2);
  const most = Math.max(...half) || 1;
  // One unit is as long across as up, unless the columns have very different units.
  half = half.map(h => (h * 4 > most ? most : h || most) * 1.25);
  view = [0, 1].flatMap(i => { const m = (range(i)[0] + range(i)[1]) / 2; return [m - half[i], m + half[i]]; });
}
function place(p) {
  // Five digits, which is what the address and the copied program hold.
  return unshown(p).map(v => +short(v));
}

// Contours: marching squares whose segments are joined, so that dashes run along the line --------

function contour(field, n) {
  const crossing = (i, j) => field[i] / (field[i] - field[j]);
  const points = new Map(), links = new Map();
  const edge = (id, x, y) => { if (!points.has(id)) { points.set(id, [x, y]); links.set(id, []); } return id; };
  for (let r = 0; r < n - 1; r++) for (let c = 0; c < n - 1; c++) {
    const i = r * n + c, corners = [i, i + 1, i + n + 1, i + n], up = corners.map(k => field[k] > 0), found = [];
    if (up[0] !== up[1]) found.push(edge(2 * i, c + crossing(i, i + 1), r));
    if (up[1] !== up[2]) found.push(edge(2 * (i + 1) + 1, c + 1, r + crossing(i + 1, i + n + 1)));
    if (up[2] !== up[3]) found.push(edge(2 * (i + n), c + crossing(i + n, i + n + 1), r + 1));
    if (up[3] !== up[0]) found.push(edge(2 * i + 1, c, r + crossing(i, i + n)));
    // At a saddle the mean of the corners tells which of them belong together.
    if (found.length === 4 && (corners.reduce((a, k) => a + field[k], 0) > 0) === up[0]) found.push(found.shift());
    for (let k = 0; k < found.length; k += 2) {
      links.get(found[k]).push(found[k + 1]);
      links.get(found[k + 1]).push(found[k]);
    }
  }
  const size = SIZE / (n - 1), done = new Set(), pieces = [];
  const trace = start => {
    const line = [];
    for (let at = start; at !== undefined && !done.has(at);) {
      done.add(at); line.push(at);
      at = links.get(at).find(next => !done.has(next));
    }
    const last = line[line.length - 1];
    const closed = line.length > 2 && links.get(last).includes(start);
    pieces.push("M" + line.map(id => { const [x, y] = points.get(id);
      return (x * size).toFixed(2) + " " + (SIZE - y * size).toFixed(2); }).join("L") + (closed ? "Z" : ""));
  };
  for (const [id, next] of links) if (next.length === 1 && !done.has(id)) trace(id);
  for (const id of links.keys()) if (!done.has(id)) trace(id);
  return pieces.join("");
}
const decode = text => new Float32Array(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);

// Drawing ----------------------------------------------------------------------------------------

function style(name) {
  const i = info.models.findIndex(m => m[0] === name);
  return `m${i % 7} d${name === "svm" ? 1 : i < 7 ? 0 : i < 14 ? 2 : 1}`;
}
const mark = c => {
  const svg = element("svg", {viewBox: "-7 -7 14 14", class: "mark", "aria-hidden": "true"});
  svg.append(element("path", {d: MARKS[c], class: "c" + c}));
  return svg;
};
function drawPoints() {
  $("points").replaceChildren(...state.points.map((p, i) => {
    const [u, v] = toScreen(shown(p));
    return element("path", {d: MARKS[p[2]], transform: `translate(${u.toFixed(1)} ${v.toFixed(1)})`,
      class: "c" + p[2] + (i === selected && taken ? " taken" : "")});
  }));
  drawCursor();
}
function drawCursor() {
  $("cursor").setAttribute("transform", `translate(${cursor[0] * SIZE} ${cursor[1] * SIZE})`);
}
function drawAxes() {
  const parts = [];
  for (const axis of [0, 1]) {
    const [low, high] = view.slice(2 * axis, 2 * axis + 2), raw = (high - low) / 5, ten = 10 ** Math.floor(Math.log10(raw));
    const step = ten * [1, 2, 5, 10].find(k => k * ten >= raw);
    for (let k = Math.ceil(low / step); k * step < high; k++) {
      const at = toScreen([k * step, k * step])[axis].toFixed(1), text = short(k * step);
      if (at < 24 || at > SIZE - 24) continue;
      parts.push(element("path", {d: axis ? `M0 ${at}H6` : `M${at} 640V634`}),
        element("text", axis ? {x: 9, y: +at + 4} : {x: at, y: 629, "text-anchor": "middle"}, text));
    }
    if (state.axes[axis]) parts.push(element("text", axis ? {x: 9, y: 16} : {x: 632, y: 610, "text-anchor": "end"}, state.axes[axis]));
  }
  $("axes").replaceChildren(...parts);
}
function drawModels(models, grid) {
  for (const model of models)
    model.drawn ??= Object.entries(model.lines).flatMap(([kind, fields]) => fields.map(field => element("path",
      {d: contour(decode(field), grid), class: `${kind} ${style(model.name)}`, "data-model": model.name, "data-kind": kind})));
  $("lines").replaceChildren(...models.flatMap(model => model.drawn));
  $("results").replaceChildren(...models.map(model => {
    const row = element("tr", {"data-model": model.name}), line = element("svg", {viewBox: "0 0 40 8", width: 40, height: 8, "aria-hidden": "true"});
    line.append(element("path", {d: "M0 4H40", class: "boundary " + style(model.name)}));
    const first = element("td"); first.append(line);
    row.append(first, element("th", {scope: "row"}, info.models.find(m => m[0] === model.name)[1]));
    const failed = !Object.keys(model.lines).length;
    if (failed) { row.append(element("td", {colspan: 5, class: "problem"}, model.message)); return row; }
    const turned = model.turned !== undefined ? model.turned.toFixed(1) + "°" : model.changed !== undefined
      ? (100 * model.changed).toFixed(1) + " % of the view" : "–";
    for (const text of [model.errors ?? "–", model.gap === undefined ? "none" : model.gap === null ? "∞" : model.gap.toExponential(1),
      model.bound === undefined ? "–" : short(model.bound), turned, (1000 * model.seconds).toFixed(1) + " ms"])
      row.append(element("td", {}, text));
    if (model.message) row.title = model.message;
    if (model.message) row.children[3].append(" (!)");
    return row;
  }));
}
function draw() { drawAxes(); drawPoints(); }

// Fitting: one question at a time, and then the newest -------------------------------------------

const fitted = new Map();
let busy = false, again = false, timer, summary, since = 0;
async function refit() {
  if (!since) since = performance.now();
  $("plot").dataset.state = "waiting";
  if (busy) { again = true; return; }
  busy = true;
  const slow = setTimeout(() => { $("status").textContent = "Fitting … (the first fit of a model compiles it)"; }, 400);
  try {
    do {
      again = false;
      const began = since;
      since = 0;
      let rest = state.models, answer, spent;
      // Models that take long come in a second answer, so that an edit shows at once.
      do {
        answer = await ask("/fit", {...state, models: rest, view, classes: undefined, axes: undefined});
        if (answer.message) fitted.clear();
        for (const model of answer.models) fitted.set(model.name, model);
        drawModels(state.models.filter(name => fitted.has(name)).map(name => fitted.get(name)), answer.grid);
        spent = performance.now() - began;
        if (rest === state.models) $("status").dataset.milliseconds = spent.toFixed(1);
        rest = answer.rest;
      } while (rest.length && !again);
      $("status").textContent = note + " " + (answer.message ?? (state.models.length
        ? `${state.points.length} points; ${state.models.length} models fitted and drawn in ${spent.toFixed(0)} ms.` : "Choose a model."));
    } while (again);
  } catch (problem) {
    $("status").textContent = problem instanceof TypeError ? "The command has ended; start oblong play again." : problem.message;
  }
  clearTimeout(slow);
  busy = false; since = 0;
  $("plot").dataset.state = "ready";
}
function changed() {
  refit();
  clearTimeout(timer);
  clearTimeout(summary);
  summary = setTimeout(summarise, 1500);
  timer = setTimeout(() => { write(); if (document.activeElement !== $("text")) writeText(); }, 150);
}
function summarise() {
  say([...$("results").rows].map(row => [...row.cells].slice(1, 6).map((cell, i) => ["", "errors", "certificate", "bound", "turned"][i] + " "
    + cell.textContent).join(", ")).join("; ") || $("status").textContent);
}
function writeText() {
  $("text").value = state.points.map(p => [short(p[0]), short(p[1]), p[2] + 1].join(", ")).join("\n");
}

// Points: mouse, touch and keys ------------------------------------------------------------------

const className = c => state.classes[c] ?? "class " + (c + 1);
const describePoint = i => `point ${i + 1} of ${state.points.length}, ${className(state.points[i][2])}, x ${short(state.points[i][0])}, y ${short(state.points[i][1])}`;
function screenOf(event) {
  const matrix = $("plot").getScreenCTM().inverse(), at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
  return [Math.min(SIZE, Math.max(0, at.x)), Math.min(SIZE, Math.max(0, at.y))];
}
function nearest([u, v]) {
  let best = -1, least = REACH ** 2;
  state.points.forEach((p, i) => {
    const [a, b] = toScreen(shown(p)), d = (a - u) ** 2 + (b - v) ** 2;
    if (d <= least) { best = i; least = d; }
  });
  return best;
}
function add(at, c) {
  if (state.points.length >= info.most_points) return say(`no more than ${info.most_points} points`);
  state.points.push([...place(fromScreen(at)), c]);
  selected = state.points.length - 1;
  fillClasses();
  say("added " + describePoint(selected));
}
function remove(i) {
  say("removed " + describePoint(i));
  state.points.splice(i, 1);
  selected = -1; taken = false;
  drawPoints(); changed();
}
function move(i, at) { state.points[i].splice(0, 2, ...place(fromScreen(at))); }
function listen() {
  const plot = $("plot");
  let dragged = -1;
  plot.addEventListener("pointerdown", event => {
    if (event.button) return;
    const at = screenOf(event);
    dragged = nearest(at);
    if (dragged < 0) { add(at, newClass); dragged = selected; changed(); }
    selected = dragged; taken = true;
    cursor = at.map(v => v / SIZE);
    plot.setPointerCapture(event.pointerId);
    drawPoints();
  });
  plot.addEventListener("pointermove", event => {
    if (dragged < 0 || !event.buttons) return;
    const at = screenOf(event);
    cursor = at.map(v => v / SIZE);
    move(dragged, at); drawPoints(); changed();
  });
  for (const name of ["pointerup", "pointercancel"])
    plot.addEventListener(name, () => { dragged = -1; taken = false; drawPoints(); });
  plot.addEventListener("dblclick", event => { const i = nearest(screenOf(event)); if (i >= 0) remove(i); });
  plot.addEventListener("keydown", event => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const arrow = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
    const step = event.shiftKey ? 0.1 : 0.01, count = state.points.length;
    if (arrow) {
      cursor = cursor.map((v, i) => Math.min(1, Math.max(0, v + step * arrow[i])));
      const at = cursor.map(v => v * SIZE);
      if (taken && selected >= 0) { move(selected, at); drawPoints(); changed(); say(describePoint(selected)); }
      else {
        drawCursor();
        const [x, y] = place(fromScreen(at));
        say(`cross at x ${short(x)}, y ${short(y)}`);
      }
    } else if (/^[1-9]$/.test(event.key) && +event.key <= info.most_classes) {
      add(cursor.map(v => v * SIZE), +event.key - 1); drawPoints(); changed();
    } else if (/^[nNpP]$/.test(event.key) && count) {
      selected = (Math.max(selected, event.key.toLowerCase() === "n" ? -1 : 0) + (event.key.toLowerCase() === "n" ? 1 : count - 1)) % count;
      cursor = toScreen(shown(state.points[selected])).map(v => v / SIZE);
      taken = false; drawPoints(); say(describePoint(selected));
    } else if (event.key === "Enter" && selected >= 0) {
      taken = !taken; drawPoints(); say((taken ? "picked up " : "dropped ") + describePoint(selected));
    } else if ((event.key === "Delete" || event.key === "Backspace") && selected >= 0) remove(selected);
    else return;
    event.preventDefault();
  });
}

// Controls ---------------------------------------------------------------------------------------

function slider(name, label, low, high, start, log) {
  const box = element("div", {class: "slider"}), id = "s-" + name, value = element("output", {for: id});
  const input = element("input", {type: "range", id, min: log ? Math.log2(low) : low, max: log ? Math.log2(high) : high,
    step: log ? 0.125 : (high - low) / (name === "angle" ? 180 : 100)});
  box.append(element("label", {for: id}, label), value, input);
  const show = () => {
    const v = state.settings[name];
    input.value = log ? Math.log2(v) : v;
    value.textContent = (+v.toPrecision(3)) + (name === "stretch" ? " times" : "");
    input.setAttribute("aria-valuetext", value.textContent);
  };
  input.addEventListener("input", () => {
    const v = log ? 2 ** +input.value : +input.value;
    state.settings[name] = Math.min(high, Math.max(low, +short(v)));
    show();
    if (state.stretched && ["stretch", "angle"].includes(name)) { fitView(); draw(); }
    changed();
  });
  box.show = show;
  return box;
}
function fillClasses() {
  const most = Math.min(info.most_classes, Math.max(2, 2 + Math.max(-1, ...state.points.map(p => p[2]))));
  if ($("classes").children.length === most) return;
  $("classes").replaceChildren(...Array.from({length: most}, (_, c) => {
    const label = element("label"), input = element("input", {type: "radio", name: "class", value: c});
    input.checked = c === newClass;
    input.addEventListener("change", () => { newClass = c; });
    label.append(input, " ", mark(c), " add " + className(c));
    return label;
  }));
}
function fillColumns() {
  $("columns").hidden = !table;
  if (!table) return;
  const options = (id, list, chosen) => $(id).replaceChildren(...list.map(v => element("option", v === chosen ? {value: v, selected: ""} : {value: v}, v)));
  options("x", table.columns, table.axes[0]);
  options("y", table.columns, table.axes[1]);
  // The command's own table has its labels already.
  $("target").parentElement.hidden = table.text === undefined;
  options("target", table.all, table.target);
}
function show() {
  for (const box of document.querySelectorAll(".slider")) box.show();
  for (const box of document.querySelectorAll("#batch input, #online input")) box.checked = state.models.includes(box.value);
  for (const box of document.querySelectorAll("[name=kernel]")) box.checked = box.value === state.kernel;
  $("standardize").checked = state.standardize;
  $("stretched").checked = state.stretched;
  $("more").open ||= info.models.some(m => m[2] === "online" && state.models.includes(m[0]));
  $("classes").replaceChildren();
  fillClasses(); fillColumns(); writeText();
  selected = -1; taken = false;
  fitView(); draw(); changed();
}
function take(answer) {
  Object.assign(state, {points: answer.points, classes: answer.classes ?? [], axes: answer.axes ?? []});
  table = answer.columns ? {...table, ...answer, all: table?.all ?? answer.all} : null;
  note = answer.message ?? "";
  show();
}
async function attempt(work) {
  const slow = setTimeout(() => { $("status").textContent = "One moment …"; }, 400);
  try { await work(); } catch (problem) { $("status").textContent = problem.message; }
  clearTimeout(slow);
}
async function copy(text, what) {
  try { await navigator.clipboard.writeText(text); say(what + " copied"); $("status").textContent = what + " copied."; }
  catch { $("status").textContent = "The browser does not allow copying; select the text and copy it yourself."; }
}
function connect() {
  for (const [name, ...rest] of info.settings)
    $(["stretch", "angle"].includes(name) ? "stretching" : "sliders").append(slider(name, ...rest));
  for (const [name, title, group, kind] of info.models) {
    const label = element("label", {title: "oblong." + kind}), input = element("input", {type: "checkbox", value: name});
    input.addEventListener("change", () => {
      state.models = info.models.map(m => m[0]).filter(n => n === name ? input.checked : state.models.includes(n));
      changed();
    });
    label.append(input, " " + title);
    $(group).append(label);
  }
  for (const box of document.querySelectorAll("[name=kernel]"))
    box.addEventListener("change", () => { state.kernel = box.value; changed(); });
  for (const name of ["standardize", "stretched"])
    $(name).addEventListener("change", event => { state[name] = event.target.checked; fitView(); draw(); changed(); });
  $("preset").append(...[["", "as they are"], ...info.presets].map(([value, title]) => element("option", {value}, title)));
  $("preset").addEventListener("change", event => {
    const name = event.target.value;
    if (name) attempt(async () => { table = null; take(await ask("/preset", {name})); });
  });
  $("file").addEventListener("change", event => attempt(async () => {
    const file = event.target.files[0];
    if (!file) return;
    // Quotes and line ends take two bytes on the way.
    if (file.size > info.most_bytes / 2) throw new Error(`The table has more than ${info.most_bytes / 2 ** 21} MB.`);
    const text = await file.text(), answer = await ask("/table", {text});
    table = {text};
    take(answer);
  }));
  for (const id of ["x", "y", "target"]) $(id).addEventListener("change", () => attempt(async () => {
    const chosen = id === "target" ? {} : {x: $("x").value, y: $("y").value};
    take(await ask("/table", {text: table.text, target: $("target").value || undefined, ...chosen}));
  }));
  $("clear").addEventListener("click", () => { state.points = []; say("no points"); draw(); changed(); });
  $("text").addEventListener("change", () => { state.points = parsePoints($("text").value, 1); show(); });
  $("python").addEventListener("click", () => attempt(async () => {
    const {text} = await ask("/python", {...state, classes: undefined, axes: undefined});
    $("code").textContent = text; $("code").hidden = false;
    await copy(text, "The program is");
  }));
  $("link").addEventListener("click", () => { write(); copy(location.href, "The address is"); });
  addEventListener("hashchange", () => { state = read(); show(); });
  $("controls").addEventListener("submit", event => event.preventDefault());
  listen();
}
attempt(async () => {
  info = await ask("/start", {});
  state = read();
  connect();
  if (!location.hash.includes("p=")) {
    if (info.table) take(info.table); else take(await ask("/preset", {name: info.presets[0][0]}));
  } else show();
});

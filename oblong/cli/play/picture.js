"use strict";
// The picture and the table below it: what is drawn of the state.
const $ = id => document.getElementById(id);
const SIZE = 640;
const MARKS = ["M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0", "M0-6L5.6 4.5H-5.6z", "M-4.6-4.6H4.6V4.6H-4.6z",
  "M0-6.2L6.2 0L0 6.2L-6.2 0z", "M0 6L5.6-4.5H-5.6z",
  "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2z"];
// `info` is what the server can do; `state` is what the address holds.
let info, state, view, cursor = [0.5, 0.5], selected = -1, taken = false;

const short = v => String(+v.toPrecision(5));
function element(tag, attributes, text) {
  const svg = ["path", "text", "svg", "g"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
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
    const row = element("tr", {"data-model": model.name}), line = element("svg", {viewBox: "0 0 40 8", "aria-hidden": "true"}), head = element("th", {scope: "row"});
    line.append(element("path", {d: "M0 4H40", class: "boundary " + style(model.name)}));
    head.append(line, info.models.find(m => m[0] === model.name)[1]);
    row.append(head);
    const failed = !Object.keys(model.lines).length;
    if (failed) { row.append(element("td", {colspan: 5, class: "problem"}, model.message)); return row; }
    const turned = model.turned !== undefined ? model.turned.toFixed(1) + "°" : model.changed !== undefined
      ? (100 * model.changed).toFixed(1) + " % of view" : "–";
    for (const text of [model.errors ?? "–", model.gap === undefined ? "none" : model.gap === null ? "∞" : model.gap.toExponential(1),
      model.bound === undefined ? "–" : short(model.bound), turned, (1000 * model.seconds).toFixed(1)])
      row.append(element("td", {}, text));
    if (model.message) row.title = model.message;
    if (model.message) row.children[2].append(" (!)");
    return row;
  }));
}
function draw() { drawAxes(); drawPoints(); }

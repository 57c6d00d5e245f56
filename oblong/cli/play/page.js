"use strict";
// What the page asks the server, and what its user does.
const REACH = 11;
const token = new URLSearchParams(location.search).get("token") || "";
let newClass = 0;

async function ask(path, node) {
  const reply = await fetch(path, {method: "POST", body: JSON.stringify(node),
    headers: {"Content-Type": "application/json", "X-Oblong-Token": token}});
  const answer = await reply.json();
  if (!reply.ok) throw new Error(answer.error);
  return answer;
}
const say = text => { $("said").textContent = text; };
// An error is shown wherever the page is scrolled to, until something else is done.
function complain(problem) {
  const close = element("button", {type: "button"}, "Close");
  close.addEventListener("click", settle);
  clearTimeout(summary);
  say("");
  $("problem").replaceChildren(element("span", {}, problem instanceof TypeError ? "The command has ended; start oblong play again."
    : problem.message ?? problem), close);
}
function settle() { $("problem").replaceChildren(); }

// Fitting: one question at a time, and then the newest -------------------------------------------

const fitted = new Map();
let busy = false, again = false, summary, since = 0;
async function refit() {
  if (!since) since = performance.now();
  $("plot").dataset.state = "waiting";
  if (busy) { again = true; return; }
  busy = true;
  const slow = setTimeout(() => { $("status").textContent = "Fitting … (the first fit of a model loads its code)"; }, 400);
  try {
    do {
      again = false;
      const began = since;
      since = 0;
      let rest = state.models, answer, spent, delay = 0;
      // Models that take long come in a second answer, so that an edit shows at once.
      do {
        answer = await ask("/fit", {...state, models: rest, view, classes: undefined, axes: undefined});
        if (answer.message) fitted.clear();
        for (const model of answer.models) fitted.set(model.name, model);
        drawModels(state.models.filter(name => fitted.has(name)).map(name => fitted.get(name)), answer.grid);
        spent = performance.now() - began;
        if (rest === state.models) $("status").dataset.milliseconds = spent.toFixed(1);
        delay += answer.delay;
        rest = answer.rest;
      } while (rest.length && !again);
      const loaded = delay > 0.1 ? `, after ${delay.toFixed(1)} s of loading` : "", count = state.models.length;
      $("status").textContent = answer.message ? answer.message[0].toUpperCase() + answer.message.slice(1) + "."
        : count ? `${state.points.length} points; ${count} model${count > 1 ? "s" : ""} fitted and drawn in ${
          (spent - 1000 * delay).toFixed(0)} ms${loaded}.` : "Choose a model.";
    } while (again);
  } catch (problem) {
    $("status").textContent = "";
    complain(problem);
  }
  clearTimeout(slow);
  busy = false; since = 0;
  $("plot").dataset.state = "ready";
}
function changed() {
  // What was copied, and what went wrong, belong to the state before.
  $("code").hidden = true;
  $("copied").textContent = "";
  settle();
  refit();
  clearTimeout(summary);
  summary = setTimeout(summarise, 1500);
  writeSoon();
}
function summarise() {
  say([...$("results").rows].map(row => [...row.cells].slice(0, 5).map((cell, i) => ["", "errors", "certificate", "bound", "turned"][i] + " "
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
  if ($("classes").children.length === most + 1) return;
  $("classes").replaceChildren(element("span", {}, "Add"), ...Array.from({length: most}, (_, c) => {
    const label = element("label"), input = element("input", {type: "radio", name: "class", value: c});
    input.checked = c === newClass;
    input.addEventListener("change", () => { newClass = c; });
    label.append(input, " ", mark(c), " " + className(c));
    return label;
  }));
}
function fillColumns() {
  $("note").textContent = table ? `${table.source}. ${note}` : note;
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
  fillClasses(); fillColumns();
  if (document.activeElement !== $("text")) writeText();
  selected = -1; taken = false;
  fitView(); draw(); changed();
}
function take(answer, source) {
  // An edit that is not written yet is a step of its own.
  if (written) write();
  Object.assign(state, {points: answer.points, classes: answer.classes ?? [], axes: answer.axes ?? []});
  table = answer.columns ? {...source, ...answer} : null;
  note = answer.message ?? "";
  show();
}
async function attempt(work) {
  settle();
  const slow = setTimeout(() => { $("status").textContent = "One moment …"; }, 400), before = $("status").textContent;
  try { await work(); } catch (problem) {
    $("status").textContent = before;
    complain(problem);
  }
  clearTimeout(slow);
}
async function copy(text, what) {
  try { await navigator.clipboard.writeText(text); }
  catch { throw new Error("The browser does not allow copying; select the text and copy it yourself."); }
  $("copied").textContent = what + " copied.";
  say(what + " copied");
}
// Tables are UTF-8, or what Excel writes.
async function textOf(file) {
  const bytes = new Uint8Array(await file.arrayBuffer()), starts = (...start) => start.every((b, i) => bytes[i] === b);
  if (starts(0x50, 0x4b)) throw new Error(`${file.name} is an Excel workbook or a zip archive; save the table as CSV.`);
  if (starts(0xff, 0xfe)) return new TextDecoder("utf-16le").decode(bytes);
  if (starts(0xfe, 0xff)) return new TextDecoder("utf-16be").decode(bytes);
  try { return new TextDecoder("utf-8", {fatal: true}).decode(bytes); }
  catch { return new TextDecoder("windows-1252").decode(bytes); }
}
function takeText(left) {
  const {points, wrong} = parsePoints($("text").value, 1);
  if (wrong.length) {
    if (left) complain(`Points as text, line ${wrong[0].line}: expected x, y and a class from 1 to ${info.most_classes}, of at most ${
      info.most_points} points, got ${wrong[0].text}. No point was changed.`);
  } else if (JSON.stringify(points) !== JSON.stringify(state.points)) {
    state.points = points;
    show();
  }
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
  $("preset").append(...[["", "choose …"], ...info.presets].map(([value, title]) => element("option", {value}, title)));
  $("preset").addEventListener("change", event => {
    const name = event.target.value;
    // A menu: the points may be changed once they are there.
    event.target.value = "";
    if (name) attempt(async () => take(await ask("/preset", {name})));
  });
  $("file").addEventListener("change", event => attempt(async () => {
    const file = event.target.files[0];
    if (!file) return;
    // Quotes and line ends take two bytes on the way.
    if (file.size > info.most_bytes / 2) throw new Error(`${file.name} has more than ${info.most_bytes / 2 ** 21} MB.`);
    const sent = {text: await textOf(file), file: file.name};
    // The same file can be opened again, once it was mended.
    event.target.value = "";
    take(await ask("/table", sent), sent);
  }));
  for (const id of ["x", "y", "target"]) $(id).addEventListener("change", () => attempt(async () => {
    const chosen = id === "target" ? {} : {x: $("x").value, y: $("y").value}, {text, file} = table;
    try { take(await ask("/table", {text, file, target: $("target").value || undefined, ...chosen}), {text, file}); }
    catch (problem) { fillColumns(); throw problem; }
  }));
  $("clear").addEventListener("click", () => {
    write();
    state.points = [];
    selected = -1; taken = false;
    draw(); changed();
    say("no points; Undo brings them back");
  });
  let pause;
  $("text").addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(takeText, 400); });
  $("text").addEventListener("change", () => { clearTimeout(pause); takeText(true); });
  $("python").addEventListener("click", () => attempt(async () => {
    const {text} = await ask("/python", {...state, classes: undefined});
    $("code").textContent = text; $("code").hidden = false;
    await copy(text, "The program is");
  }));
  $("link").addEventListener("click", () => { write(); copy(location.href, "The address is"); });
  rememberSteps();
  $("controls").addEventListener("submit", event => event.preventDefault());
  listen();
}
attempt(async () => {
  info = await ask("/start", {});
  state = read();
  connect();
  if (!location.hash.includes("p=")) {
    if (info.table) take(info.table, {}); else take(await ask("/preset", {name: info.presets[0][0]}));
  } else show();
  write();
});

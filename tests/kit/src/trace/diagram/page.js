// The page: what is shown, what is looked for, what is selected.

const began = performance.now();
const raw = JSON.parse(document.getElementById("trace").textContent);
const $ = (id) => document.getElementById(id);

const model = {
  nodes: raw.nodes,
  end: Math.max(raw.micros, 1),
  records: raw.records.map(([t, lane, group, term, text, event, what, run], at) =>
    ({ at, t, lane, group, term, text, event: event === 1, what, run, sent: false })),
  spans: raw.spans,
  broken: raw.broken,
  view: { from: 0, to: 1 },
  lanes: raw.nodes.map((_, lane) => lane),
  hidden: new Set(),
  matches: new Set(),
  selected: null,
  link: null,
  visible() {
    const { from, to } = this.view;
    const shown = (record) => !this.hidden.has(record.group) && this.lanes.includes(record.lane);
    const first = lowerBound(this.records, from, (it) => it.t);
    const last = lowerBound(this.records, to + 1e-9, (it) => it.t);
    const links = [];
    const start = lowerBound(this.links, from - this.flightMax, (it) => it.t);
    for (let at = start; at < this.links.length && this.links[at].t <= to; at++) {
      const link = this.links[at];
      const receipt = link.receipt === null ? null : this.records[link.receipt];
      if ((receipt ? receipt.t : link.t + this.flight) < from) continue;
      if (!shown(this.records[link.send]) || !this.lanes.includes(link.lane)) continue;
      links.push(link);
    }
    return { records: this.records.slice(first, last).filter(shown), links };
  },
};

model.links = raw.links.map(([send, receipt, lane]) => {
  const { t, group } = model.records[send];
  return { send, receipt, t, group, lane: receipt === null ? lane : model.records[receipt].lane };
});
const flights = model.links.filter((it) => it.receipt !== null)
  .map((it) => model.records[it.receipt].t - it.t).sort((a, b) => a - b);
model.flight = Math.max(flights[flights.length >> 1] || 0, 1);
model.flightMax = Math.max(flights[flights.length - 1] || 0, model.flight);
const linkOf = model.linkOf = new Map();
for (const link of model.links) {
  model.records[link.send].sent = true;
  linkOf.set(link.send, link);
  if (link.receipt !== null) linkOf.set(link.receipt, link);
}

const drawing = new Drawing($("lanes"), model);
let asked = false;
const redraw = () => {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; drawing.draw(); overview(); });
};

function look(from, to) {
  const least = 1, most = model.end * 1.06 + 2;
  const wide = Math.max(least, Math.min(most, to - from));
  const low = Math.max(-model.end * .03 - 1, Math.min(from, model.end * 1.03 + 1 - wide));
  model.view = { from: low, to: low + wide };
  redraw();
}

const fit = () => look(-model.end * .01, model.end * 1.01);

function zoom(by, x = (drawing.width + LEFT) / 2) {
  const { from, to } = model.view, at = drawing.time(x);
  look(at - (at - from) * by, at + (to - at) * by);
}

function show(at) {
  const { from, to } = model.view, { t } = model.records[at], wide = to - from;
  if (t < from + wide * .05 || t > to - wide * .05) look(t - wide / 2, t + wide / 2);
  select(at);
}

function select(at, link = linkOf.get(at) || null) {
  Object.assign(model, { selected: at, link });
  detail();
  redraw();
}

function element(name, text, more = {}) {
  return Object.assign(document.createElement(name), { textContent: text }, more);
}

// A step of a node: the event, and what the node wanted done.
function step(at) {
  const { records } = model, { lane } = records[at];
  const lead = [];
  for (let before = at; before >= 0; before--) {
    if (records[before].lane !== lane) continue;
    lead.unshift(before);
    if (records[before].event) break;
  }
  for (let after = at + 1; after < records.length; after++) {
    if (records[after].lane !== lane) continue;
    if (records[after].event) break;
    lead.push(after);
  }
  return lead;
}

function detail() {
  const box = $("detail");
  box.replaceChildren();
  if (model.selected === null) {
    box.append(element("p", "Click a mark or an arrow. Drag to move, turn the wheel to come " +
      "closer, Enter for the next match, + − 0 as well."));
    return;
  }
  const record = model.records[model.selected];
  box.append(element("h2", `${model.nodes[record.lane]} ${record.text}`));
  box.append(element("p", `at ${span(record.t)}, run ${record.run}, record ${record.at + 1}`));
  // Numbers that JavaScript cannot hold stay text.
  const what = record.what.replace(/([:,[])(\d{16,})/g, '$1"$2"');
  box.append(element("pre", JSON.stringify(JSON.parse(what), null, 1)));
  const go = (at) => {
    const it = model.records[at];
    return element("a", `${span(it.t)}  ${model.nodes[it.lane]} ${it.text}`,
      { onclick: () => show(at), className: at === record.at ? "now" : "" });
  };
  const link = linkOf.get(record.at);
  if (link) {
    const other = link.send === record.at ? link.receipt : link.send;
    box.append(element("h3", "message"));
    box.append(other === null ? element("p", "never arrived") : go(other));
    if (other !== null) {
      const took = model.records[link.receipt].t - link.t;
      box.append(element("p", `under way for ${span(took)}`));
    }
  }
  box.append(element("h3", "this step"), ...step(record.at).map(go));
}

function search() {
  const words = $("search").value.trim().toLowerCase();
  model.matches = new Set();
  if (words) {
    for (const record of model.records) {
      const text = `${model.nodes[record.lane]} ${record.text} ${record.group} ${record.what}`;
      if (text.toLowerCase().includes(words)) model.matches.add(record.at);
    }
  }
  $("found").textContent = words ? `${model.matches.size} found` : "";
  redraw();
}

function next(forward) {
  const all = [...model.matches];
  if (!all.length) return;
  const now = model.selected ?? -1;
  const at = forward ? all.find((it) => it > now) ?? all[0]
    : all.findLast((it) => it < now) ?? all[all.length - 1];
  $("found").textContent = `${all.indexOf(at) + 1} of ${all.length}`;
  show(at);
}

function chips() {
  const counts = {};
  for (const record of model.records) counts[record.group] = (counts[record.group] || 0) + 1;
  const chip = (text, count, colour, toggle) => {
    const button = element("button", "", { className: "chip" });
    button.append(element("i", ""), text, element("b", count));
    button.style.setProperty("--chip", colour);
    button.setAttribute("aria-pressed", "true");
    button.onclick = () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", on);
      toggle(on);
      redraw();
    };
    return button;
  };
  for (const group of Object.keys(GROUPS).filter((it) => counts[it])) {
    $("filters").append(chip(group, counts[group], GROUPS[group], (on) => {
      if (on) model.hidden.delete(group); else model.hidden.add(group);
    }));
  }
  $("filters").append(element("span", "", { className: "rule" }));
  model.nodes.forEach((node, lane) => {
    $("filters").append(chip(node, "", "transparent", (on) => {
      model.lanes = model.nodes.map((_, at) => at)
        .filter((at) => at === lane ? on : model.lanes.includes(at));
    }));
  });
}

function overview() {
  const canvas = $("overview"), pen = canvas.getContext("2d");
  const { clientWidth: width, clientHeight: height } = canvas.parentElement;
  const ratio = window.devicePixelRatio || 1;
  Object.assign(canvas, { width: width * ratio, height: height * ratio });
  Object.assign(canvas.style, { width: width + "px", height: height + "px" });
  pen.scale(ratio, ratio);
  const x = (micros) => LEFT + micros / model.end * (width - LEFT - 12);
  const each = (height - 12) / model.nodes.length, dark = drawing.dark;
  for (const [lane, from, to, term, role] of model.spans) {
    pen.fillStyle = termColour(term, dark, role === "leader" ? 1 : role === "follower" ? .22 : .6);
    const wide = Math.max(x(to) - x(from), 1);
    pen.fillRect(x(from), 6 + lane * each, wide, Math.max(each - 1.5, 1));
  }
  pen.fillStyle = css("--bad");
  for (const record of model.records) {
    if (record.group === "crash") pen.fillRect(x(record.t), 6 + record.lane * each, 2, each - 1);
  }
  if (model.broken?.record != null) {
    pen.fillRect(x(model.records[model.broken.record].t) - 1, 0, 3, height);
  }
  pen.strokeStyle = css("--ink");
  pen.lineWidth = 1.5;
  const left = Math.max(x(model.view.from), LEFT - 4), right = Math.min(x(model.view.to), width - 4);
  pen.strokeRect(left, 3, Math.max(right - left, 3), height - 6);
  pen.fillStyle = css("--faint");
  pen.font = "11px system-ui, sans-serif";
  pen.fillText("all", LEFT - 30, height / 2 + 4);
}

function listen() {
  const canvas = $("lanes");
  let drag = null;
  canvas.onwheel = (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const { from, to } = model.view;
      const by = (event.deltaX || event.deltaY) / drawing.width * (to - from);
      look(from + by, to + by);
    } else {
      zoom(Math.exp(event.deltaY * .0016), event.offsetX);
    }
  };
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { x: event.offsetX, y: event.offsetY, view: model.view, moved: false };
  };
  canvas.onpointermove = (event) => {
    if (!drag) return hover(event);
    const by = (event.offsetX - drag.x) / (drawing.width - LEFT) * (drag.view.to - drag.view.from);
    drag.moved ||= Math.abs(event.offsetX - drag.x) > 3;
    if (drag.moved) {
      canvas.classList.add("moving");
      look(drag.view.from - by, drag.view.to - by);
    }
  };
  canvas.onpointerup = (event) => {
    const hit = drag && !drag.moved && drawing.at(event.offsetX, event.offsetY);
    canvas.classList.remove("moving");
    drag = null;
    if (hit) select(hit.record, hit.link);
  };
  canvas.onpointerleave = () => { $("tip").hidden = true; };
  const jump = (event) => {
    if (event.buttons !== 1) return;
    const width = $("overview").clientWidth - LEFT - 12, { from, to } = model.view;
    const at = (event.offsetX - LEFT) / width * model.end;
    look(at - (to - from) / 2, at + (to - from) / 2);
  };
  $("overview").onpointerdown = $("overview").onpointermove = jump;
  $("search").oninput = search;
  $("search").onkeydown = (event) => { if (event.key === "Enter") next(!event.shiftKey); };
  $("after").onclick = () => next(true);
  $("before").onclick = () => next(false);
  $("in").onclick = () => zoom(.6);
  $("out").onclick = () => zoom(1.7);
  $("fit").onclick = fit;
  $("theme").onclick = () => theme(drawing.dark ? "light" : "dark");
  $("broken").onclick = () => { if (model.broken.record != null) close(model.broken.record); };
  window.onresize = () => { drawing.resize(); redraw(); };
  window.onkeydown = (event) => {
    if (event.target === $("search")) return;
    const wide = model.view.to - model.view.from, { from, to } = model.view;
    const act = { "+": () => zoom(.6), "=": () => zoom(.6), "-": () => zoom(1.7), 0: fit,
      ArrowLeft: () => look(from - wide / 5, to - wide / 5),
      ArrowRight: () => look(from + wide / 5, to + wide / 5),
      Enter: () => next(!event.shiftKey) }[event.key];
    if (act) act();
  };
}

function hover(event) {
  const hit = drawing.at(event.offsetX, event.offsetY), tip = $("tip");
  tip.hidden = !hit;
  if (!hit) return;
  const record = model.records[hit.record];
  tip.textContent = `${span(record.t)}  ${model.nodes[record.lane]} ${record.text}`;
  tip.style.top = Math.min(event.offsetY + 14, drawing.height - 40) + "px";
  tip.style.left = Math.min(event.offsetX + 14, drawing.width - 300) + "px";
}

// Looks at a record and a little of what came before it.
function close(at) {
  const { t } = model.records[at], wide = Math.min(model.end, Math.max(model.flight * 60, 100));
  look(t - wide * .7, t + wide * .3);
  select(at);
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  redraw();
}

function figures() {
  const count = (test) => model.records.filter(test).length;
  const lost = model.links.filter((it) => it.receipt === null).length;
  const crashes = count((it) => it.group === "crash");
  $("figures").textContent = `${model.records.length} records of ${model.nodes.length} nodes over ` +
    `${span(raw.micros)} · ${model.links.length} messages, ${lost} lost · ` +
    `${count((it) => it.group === "leader")} elections won · ${crashes} crashes`;
  if (model.broken) {
    $("broken").hidden = false;
    $("broken").textContent = `rule ${model.broken.rule}: ${model.broken.what}`;
  }
}

function begin() {
  const wish = new URLSearchParams(location.hash.slice(1));
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  theme(wish.get("theme") || (dark ? "dark" : "light"));
  figures();
  chips();
  listen();
  drawing.resize();
  fit();
  if (wish.has("from")) look(+wish.get("from"), +wish.get("to"));
  else if (model.broken?.record != null) close(model.broken.record);
  if (wish.has("select")) select(+wish.get("select"));
  if (wish.has("search")) { $("search").value = wish.get("search"); search(); }
  detail();
  const parsed = performance.now();
  drawing.draw();
  overview();
  const drawn = performance.now();
  Object.assign(document.documentElement.dataset, {
    loaded: (parsed - began).toFixed(0), drawn: (drawn - parsed).toFixed(0) });
}

begin();

"use strict";
// Drawing: everything that is visible now, and nothing else, on one canvas.

const LEFT = 74, TOP = 30, BOTTOM = 8;
const GROUPS = {
  vote: "#8b5cd6", append: "#2f74c0", reject: "#d9822b", heartbeat: "#9a9a94", read: "#2e9d6a",
  propose: "#a97142", snapshot: "#0f9aa8", leader: "#c79a1b", role: "#b8b4a6", members: "#b5509c",
  start: "#3f9f4a", stop: "#7b7a72", crash: "#d63b34", failed: "#e0731d", commit: "#31935f", apply: "#86b89b",
  disk: "#8795a8", other: "#a5a39a",
};
const HEIGHT = { leader: 18, candidate: 12, pre_candidate: 8, follower: 5 };
// More than this at once would hide one another; then only what is rare is drawn.
const SMALL_MAX = 2500, ARROWS_MAX = 6000;

// Far from one another, and from the red of what is lost.
const HUES = [262, 212, 38, 158, 292, 92, 186, 322, 58, 236];

const termColour = (term, dark, strength) => {
  const hue = HUES[term % HUES.length];
  return `hsla(${hue}, ${dark ? 52 : 56}%, ${dark ? 60 : 49}%, ${strength})`;
};

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const span = (micros) => {
  const at = Math.abs(micros);
  if (at >= 1e6) return (micros / 1e6).toFixed(at >= 1e8 ? 0 : 3).replace(/\.?0+$/, "") + " s";
  if (at >= 1e3) return (micros / 1e3).toFixed(3).replace(/\.?0+$/, "") + " ms";
  return +micros.toFixed(3) + " µs";
};

function lowerBound(list, value, key) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) < value) low = middle + 1; else high = middle;
  }
  return low;
}

class Drawing {
  constructor(canvas, model) {
    Object.assign(this, { canvas, model, pen: canvas.getContext("2d") });
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas.parentElement;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: width + "px", height: height + "px" });
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    Object.assign(this, { width, height });
  }

  x(micros) {
    const { from, to } = this.model.view;
    return LEFT + (micros - from) / (to - from) * (this.width - LEFT);
  }

  time(x) {
    const { from, to } = this.model.view;
    return from + (x - LEFT) / (this.width - LEFT) * (to - from);
  }

  y(lane) {
    const lanes = this.model.lanes;
    const each = (this.height - TOP - BOTTOM) / Math.max(lanes.length, 1);
    return TOP + (lanes.indexOf(lane) + .5) * each;
  }

  draw() {
    const { pen, model } = this;
    this.dark = document.documentElement.dataset.theme === "dark";
    this.colours = { back: css("--back"), ink: css("--ink"), faint: css("--faint"),
      line: css("--line"), bad: css("--bad"), accent: css("--accent") };
    pen.fillStyle = this.colours.back;
    pen.fillRect(0, 0, this.width, this.height);
    this.visible = model.visible();
    this.axis();
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, this.width - LEFT, this.height);
    pen.clip();
    this.lanes();
    this.arrows();
    this.marks();
    this.roles();
    this.trouble();
    pen.restore();
    this.labels();
  }

  axis() {
    const { pen, model: { view } } = this;
    const wanted = (view.to - view.from) / Math.max(2, (this.width - LEFT) / 120);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= wanted);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      const x = Math.round(this.x(at)) + .5;
      pen.strokeStyle = this.colours.line;
      pen.beginPath(); pen.moveTo(x, TOP - 6); pen.lineTo(x, this.height); pen.stroke();
      pen.fillStyle = this.colours.faint;
      pen.textAlign = "center";
      pen.fillText(span(at), x, 13);
    }
  }

  lanes() {
    const { pen, model } = this;
    for (const lane of model.lanes) {
      const y = Math.round(this.y(lane)) + .5;
      pen.strokeStyle = this.colours.line;
      pen.setLineDash([2, 5]);
      pen.beginPath(); pen.moveTo(LEFT, y); pen.lineTo(this.width, y); pen.stroke();
      pen.setLineDash([]);
    }
    for (const [lane, from, to, term, role] of model.spans) {
      if (to < model.view.from || from > model.view.to || !model.lanes.includes(lane)) continue;
      const left = Math.max(this.x(from), LEFT - 2), right = Math.min(this.x(to), this.width + 2);
      const tall = HEIGHT[role], y = this.y(lane) - tall / 2;
      const strength = { leader: 1, candidate: .75, pre_candidate: .55, follower: .38 }[role];
      pen.fillStyle = termColour(term, this.dark, strength);
      const wide = Math.max(right - left, 1);
      pen.beginPath();
      pen.roundRect(left, y, wide, tall, Math.min(4, tall / 2, wide / 2));
      pen.fill();
    }
  }

  roles() {
    const { pen, model } = this;
    pen.textAlign = "left";
    for (const [lane, from, to, term, role] of model.spans) {
      if (to < model.view.from || from > model.view.to || !model.lanes.includes(lane)) continue;
      const left = Math.max(this.x(from), LEFT), right = Math.min(this.x(to), this.width);
      const tall = HEIGHT[role], y = this.y(lane) - tall / 2, wide = right - left;
      if (role === "leader" && wide > 56) {
        pen.fillStyle = termColour(term, this.dark, 1);
        pen.beginPath(); pen.roundRect(left + 2, y + 1, 60, tall - 2, 3); pen.fill();
        pen.fillStyle = this.dark ? "#101216" : "#fff";
        pen.font = "600 11px system-ui, sans-serif";
        pen.fillText(`leads t${term}`, left + 8, y + tall / 2 + .5);
      } else if (wide > 70) {
        pen.fillStyle = this.colours.faint;
        pen.font = "10px system-ui, sans-serif";
        const word = { candidate: "stands ", pre_candidate: "asks " }[role] || "";
        pen.fillText(`${word}t${term}`, left + 6, y - 9);
      }
    }
  }

  // Where an arrow runs, from the edge of one lane to the edge of another.
  segment(link) {
    const { records, flight } = this.model;
    const send = records[link.send], receipt = link.receipt === null ? null : records[link.receipt];
    const to = receipt ? receipt.lane : link.lane;
    const down = this.y(to) > this.y(send.lane) ? 1 : -1;
    const from = { x: this.x(send.t), y: this.y(send.lane) + down * 9 };
    if (receipt) return { from, to: { x: this.x(receipt.t), y: this.y(to) - down * 9 } };
    const reach = .45, end = this.y(to) - down * 9;
    return { from, to: { x: from.x + (this.x(flight) - this.x(0)) * reach,
      y: from.y + (end - from.y) * reach } };
  }

  arrows() {
    const { pen, model } = this;
    const links = this.visible.links;
    const heads = links.length < 700, crowd = links.length > ARROWS_MAX;
    const every = crowd ? Math.ceil(links.length / ARROWS_MAX) : 1;
    this.skipped = crowd ? links.length - Math.ceil(links.length / every) : 0;
    const faint = Math.max(.16, Math.min(.8, 260 / links.length));
    const loud = (link) => link === model.link || model.matches.has(link.send) ||
      model.matches.has(link.receipt);
    links.forEach((link, at) => {
      if (at % every && !loud(link)) return;
      const { from, to } = this.segment(link);
      pen.globalAlpha = loud(link) ? 1 : link.group === "heartbeat" ? faint * .6 : faint;
      pen.strokeStyle = pen.fillStyle =
        link.receipt === null ? this.colours.bad : GROUPS[link.group];
      pen.lineWidth = link === model.link ? 2.6 : loud(link) ? 1.8 : 1;
      pen.beginPath(); pen.moveTo(from.x, from.y); pen.lineTo(to.x, to.y); pen.stroke();
      if (link.receipt === null) {
        const r = heads ? 4 : 2.5;
        pen.lineWidth = heads ? 1.6 : 1;
        pen.beginPath();
        pen.moveTo(to.x - r, to.y - r); pen.lineTo(to.x + r, to.y + r);
        pen.moveTo(to.x + r, to.y - r); pen.lineTo(to.x - r, to.y + r);
        pen.stroke();
      } else if (heads || loud(link)) {
        const turn = Math.atan2(to.y - from.y, to.x - from.x), r = 7;
        pen.beginPath();
        pen.moveTo(to.x, to.y);
        pen.lineTo(to.x - r * Math.cos(turn - .35), to.y - r * Math.sin(turn - .35));
        pen.lineTo(to.x - r * Math.cos(turn + .35), to.y - r * Math.sin(turn + .35));
        pen.fill();
      }
    });
    pen.globalAlpha = 1;
    pen.lineWidth = 1;
  }

  marks() {
    const { pen, model } = this;
    const small = this.visible.records.length <= SMALL_MAX;
    for (const record of this.visible.records) {
      const x = this.x(record.t), y = this.y(record.lane);
      const matched = model.matches.has(record.at);
      this.mark(record, x, y, small || matched);
      if (matched) this.ring(x, y, 9, this.colours.accent, 2);
    }
    if (model.selected !== null) {
      const record = model.records[model.selected];
      if (model.lanes.includes(record.lane)) {
        this.ring(this.x(record.t), this.y(record.lane), 11, this.colours.ink, 2);
      }
    }
  }

  // Where a rule was broken.
  trouble() {
    const { pen, model } = this;
    const broken = model.broken && model.records[model.broken.record];
    if (broken && model.lanes.includes(broken.lane)) {
      const x = this.x(broken.t), y = this.y(broken.lane);
      pen.strokeStyle = this.colours.bad;
      pen.lineWidth = 1.5;
      pen.setLineDash([5, 4]);
      pen.beginPath(); pen.moveTo(x, TOP - 6); pen.lineTo(x, this.height); pen.stroke();
      pen.setLineDash([]);
      this.ring(x, y, 15, this.colours.bad, 3);
      this.word(`rule ${model.broken.rule}`, x + 20, y - 18, this.colours.bad, true);
    }
  }

  mark(record, x, y, small) {
    const { pen, model } = this, colour = GROUPS[record.group];
    pen.fillStyle = pen.strokeStyle = colour;
    pen.lineWidth = 2;
    switch (record.group) {
      case "crash": case "failed":
        pen.lineWidth = 3;
        pen.beginPath();
        pen.moveTo(x - 6, y - 6); pen.lineTo(x + 6, y + 6);
        pen.moveTo(x + 6, y - 6); pen.lineTo(x - 6, y + 6);
        pen.stroke();
        return;
      case "start":
        pen.beginPath();
        pen.moveTo(x, y - 8); pen.lineTo(x + 10, y); pen.lineTo(x, y + 8);
        pen.fill();
        return;
      case "stop": pen.fillRect(x - 5, y - 5, 10, 10); return;
      case "leader": this.star(x, y - 17); return;
      case "members":
        pen.beginPath();
        pen.moveTo(x, y - 7); pen.lineTo(x + 7, y); pen.lineTo(x, y + 7); pen.lineTo(x - 7, y);
        pen.fill();
        return;
      case "snapshot": if (!record.sent) pen.fillRect(x - 4, y + 5, 8, 8); return;
    }
    if (!small) return;
    switch (record.group) {
      case "commit":
        pen.beginPath(); pen.moveTo(x, y - 4); pen.lineTo(x, y - 13); pen.stroke();
        if (this.visible.records.length < 260) {
          this.word(record.text.replace(/\D+/, ""), x, y - 20, colour, false);
        }
        return;
      case "apply": pen.beginPath(); pen.arc(x, y + 12, 2, 0, 7); pen.fill(); return;
      case "disk": pen.fillRect(x - 1.5, y + 6, 3, record.event ? 6 : 3); return;
      case "role": case "other": return;
      // A message that has an arrow needs no dot.
      default:
        if (model.linkOf.has(record.at)) return;
        pen.beginPath(); pen.arc(x, y, 2.2, 0, 7); pen.fill();
    }
  }

  star(x, y) {
    const { pen } = this;
    pen.beginPath();
    for (let point = 0; point < 10; point++) {
      const r = point % 2 ? 3 : 7, turn = Math.PI * point / 5 - Math.PI / 2;
      pen.lineTo(x + r * Math.cos(turn), y + r * Math.sin(turn));
    }
    pen.fill();
  }

  ring(x, y, r, colour, wide) {
    const { pen } = this;
    pen.strokeStyle = colour;
    pen.lineWidth = wide;
    pen.beginPath(); pen.arc(x, y, r, 0, 7); pen.stroke();
    pen.lineWidth = 1;
  }

  word(text, x, y, colour, left) {
    const { pen } = this;
    pen.font = "600 11px system-ui, sans-serif";
    pen.textAlign = left ? "left" : "center";
    pen.lineWidth = 3;
    pen.strokeStyle = this.colours.back;
    pen.strokeText(text, x, y);
    pen.fillStyle = colour;
    pen.fillText(text, x, y);
    pen.lineWidth = 1;
  }

  labels() {
    const { pen, model } = this;
    pen.fillStyle = this.colours.back;
    pen.fillRect(0, 0, LEFT - 1, this.height);
    pen.textAlign = "right";
    for (const lane of model.lanes) {
      pen.font = "650 14px system-ui, sans-serif";
      pen.fillStyle = this.colours.ink;
      pen.fillText(model.nodes[lane], LEFT - 14, this.y(lane), LEFT - 20);
    }
    if (this.skipped > 0) {
      this.word(`${this.skipped} messages more: come closer`, this.width / 2, this.height - 12,
        this.colours.faint, false);
    }
  }

  // What lies under the pointer: a record, or a message.
  at(x, y) {
    let best = { distance: 10 };
    for (const record of this.visible.records) {
      const tall = Math.abs(this.y(record.lane) - y);
      if (tall > 14) continue;
      const distance = Math.abs(this.x(record.t) - x) + tall / 4;
      if (distance < best.distance) best = { distance, record: record.at };
    }
    if (best.record !== undefined) return best;
    for (const link of this.visible.links) {
      const { from, to } = this.segment(link);
      const [dx, dy] = [to.x - from.x, to.y - from.y];
      const along = ((x - from.x) * dx + (y - from.y) * dy) / (dx * dx + dy * dy || 1);
      const part = Math.max(0, Math.min(1, along));
      const distance = Math.hypot(from.x + part * dx - x, from.y + part * dy - y);
      if (distance < Math.min(best.distance, 6)) best = { distance, record: link.send, link };
    }
    return best.record === undefined ? null : best;
  }
}

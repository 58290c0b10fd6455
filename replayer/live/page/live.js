"use strict";
(() => {
  const KINDS = JSON.parse(document.getElementById("kinds").textContent);
  const AT_WORK = ["cpu_user", "cpu_nice", "cpu_guest", "cpu_guest_nice", "cpu_system", "cpu_irq", "cpu_softirq"];
  const PANELS = [
    { title: "Blocks a second", names: ["riops", "hits", "device_reads"], short: { riops: "RIOPS", hits: "hits", device_reads: "device reads" }, needs: ["riops"] },
    { title: "Bytes a second, by the step", names: ["bytes"], short: { bytes: "read" } },
    { title: "Files a second", names: ["files"], short: { files: "files" } },
    { title: "Rows a second", names: ["rows"], short: { rows: "rows" } },
    { title: "Statements a second", names: ["statements"], short: { statements: "statements" } },
    { title: "Operations a second", names: ["operations"], short: { operations: "operations" } },
    { title: "Processors", names: [...AT_WORK, "cpu_steal", "cpu_iowait"], short: { cpu_user: "user", cpu_nice: "niced", cpu_guest: "guests", cpu_guest_nice: "guests, niced", cpu_system: "kernel", cpu_irq: "interrupts", cpu_softirq: "soft interrupts", cpu_steal: "stolen", cpu_iowait: "waiting for I/O" }, stacked: true, most: 1, machine: true },
    { title: "Device, requests a second", names: ["device_reads", "device_writes"], short: { device_reads: "reads", device_writes: "writes" }, machine: true },
    { title: "Device, bytes a second", names: ["device_read_bytes", "device_write_bytes"], short: { device_read_bytes: "read", device_write_bytes: "written" }, machine: true },
  ];
  const TILES = [
    ["riops", "RIOPS"], ["hits", "cache hits"], ["bytes", "read by the step"], ["files", "files"], ["rows", "rows"],
    ["statements", "statements"], ["operations", "operations"], ["behind", "behind"],
    ["device_reads", "device reads"], ["device_read_bytes", "device, read"], ["device_write_bytes", "device, written"],
  ];
  const ENDED = new Set(["done", "failed", "interrupted", "partial", "skipped"]);
  const SIGNS = { "done": "✓", "running": "▶", "to come": "○", "skipped": "–" };
  const STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200];
  const MOST = 2400, GAP = 6;
  const byId = (id) => document.getElementById(id);
  let points = [], state = null, ahead = 0, heard = 0, stale = false, reported = false;

  function node(tag, className, text) {
    const one = document.createElement(tag);
    if (className) one.className = className;
    if (text !== undefined) one.textContent = text;
    return one;
  }
  function drawn(tag, about, text) {
    const one = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(about)) one.setAttribute(name, value);
    if (text !== undefined) one.textContent = text;
    return one;
  }
  const instant = (text) => Date.parse(text);
  // Without an answer the clock stands at the last message: what came after that is not known.
  const now = () => (stale ? heard : Date.now()) + ahead;
  const lastKnown = (words) => (stale ? `${words}, last known` : words);

  function clock(seconds) {
    const whole = Math.max(0, Math.round(seconds)), s = whole % 60, m = Math.floor(whole / 60) % 60, h = Math.floor(whole / 3600);
    const two = (n) => String(n).padStart(2, "0");
    return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
  }
  const rough = (seconds) => (seconds < 60 ? `${Math.max(1, Math.round(seconds))} s` : clock(seconds));
  function lasted(seconds) {
    return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : seconds < 60 ? `${digits(seconds)} s` : clock(seconds);
  }
  function digits(value) {
    const size = Math.abs(value);
    if (size >= 1000) return Math.round(value).toLocaleString("en-US");
    if (size >= 100) return value.toFixed(0);
    if (size >= 10) return value.toFixed(1);
    if (size === 0) return "0";
    return size >= 0.01 ? value.toFixed(2) : value.toPrecision(2);
  }
  function scaled(value, base, names) {
    let at = 0;
    while (Math.abs(value) >= base && at < names.length - 1) { value /= base; at += 1; }
    return [value, names[at]];
  }
  function shown(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "ratio") return `${Math.round(value * 100)}%`;
    if (unit === "B/s") { const [v, u] = scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s"]); return `${digits(v)} ${u}`; }
    
    if (unit === "s") return lasted(value);
    if (unit === "1/s") return `${digits(value)}/s`;
    return `${digits(value)}${unit ? ` ${unit}` : ""}`;
  }

  // When the run has ended, the marks of its steps are the report's answers to "believe?".
  function belief(step) {
    if (step.state !== "done" || !state.run) return undefined;
    return new Map(Object.entries(state.run.believed)).get(step.name);
  }
  // Without the unit, which stands before it.
  function shortName(figure) {
    const name = figure.metric.replace(/^[^.]*\./, "").replace(/[._]/g, " ");
    const counted = figure.unit.endsWith("/s") ? name.replace(/ ?per second$/, "") : name;
    return figure.unit === `${counted}/s` ? "" : counted;
  }

  function stepRow(step, times) {
    const believed = belief(step), refused = believed === "no";
    // A step that did not get the data that it asked for has measured something else.
    const doubtful = !refused && (believed === "with care" || (step.state === "done" && step.doubt));
    const row = node("li", `${step.state.replaceAll(" ", "-")}${refused ? " refused" : doubtful ? " doubtful" : ""}`);
    const mark = node("span", "mark", refused ? "✗" : doubtful ? "!" : SIGNS[step.state] || "✗");
    if (believed) mark.title = `believe? ${believed}`;
    row.append(mark);
    row.append(node("span", "name", step.name + (times > 1 ? ` (${step.repeat})` : "")));
    const expected = step.expected === null ? null : step.expected;
    let time = "";
    if (step.state === "running") {
      const since = (now() - instant(step.began)) / 1000;
      time = stale ? lastKnown(clock(since)) : clock(since) + (expected === null ? "" : since < expected ? `, ${clock(expected - since)} left` : since < 2 * expected ? ", any moment" : "");
    } else if (step.seconds !== null) time = lasted(step.seconds);
    else if (expected !== null) time = `about ${rough(expected)}`;
    row.append(node("span", "time", time));
    const [first, ...others] = step.figures;
    const figure = node("span", "figure", first ? first.text : "");
    if (first) {
      figure.title = [first, ...others].map((one) => `${one.metric} ${one.text}`).join("\n");
      figure.append(node("span", "time", ` ${shortName(first)}`));
    }
    row.append(figure);
    const words = ["to come", "running"].includes(step.state) ? step.about : [step.doubt, step.proof, step.reason].filter(Boolean).join("; ");
    row.append(node("span", "proof", words));
    return row;
  }

  function timeLeft() {
    let left = 0, known = true, any = false;
    for (const step of state.steps) {
      if (ENDED.has(step.state)) continue;
      any = true;
      if (step.expected === null) { known = false; continue; }
      const since = step.state === "running" ? (now() - instant(step.began)) / 1000 : 0;
      left += Math.max(0, step.expected - since);
    }
    if (stale || !any || (!left && !known)) return "";
    if (left < 1) return "";
    return known ? `about ${clock(left)} left` : `${clock(left)} left or more`;
  }

  function header() {
    const run = state.run, about = state.about;
    if (!run) return;
    const names = [run.workload, run.label].filter(Boolean).join(" · ");
    byId("title").textContent = names || run.id;
    document.title = `${run.status === "running" && !stale ? "▶ " : ""}${names} – replayer`;
    const status = byId("status");
    status.textContent = lastKnown(run.status);
    status.className = `status ${stale ? "" : run.status}`;
    const passed = run.status === "running" ? `${clock((now() - instant(run.started)) / 1000)} gone` : "";
    const done = state.steps.filter((step) => ENDED.has(step.state)).length;
    const many = state.steps.length ? `${done} of ${state.steps.length} steps` : "";
    byId("left").textContent = run.status === "running" ? [many, passed, timeLeft()].filter(Boolean).join(", ") : run.error;
    byId("headline").textContent = run.headline;
    byId("headline").hidden = !run.headline;
    const host = about ? about.host : {};
    const where = [host["host.name"], host["os.name"], host["kernel.release"], host["cpu.model"] && `${host["cpu.model"]}, ${host["cpu.threads"] || "?"} threads`,
      about && about.engine, state.device && `${state.device}${host["device.model"] ? ` (${host["device.model"]})` : ""}`];
    byId("where").textContent = [...where.filter(Boolean), `began ${new Date(instant(run.started)).toLocaleString("en-GB")}`, run.id, ...run.notes].join(" · ");
  }

  function steps() {
    const times = Math.max(1, ...state.steps.map((step) => step.repeat));
    byId("steps").replaceChildren(...state.steps.map((step) => stepRow(step, times)));
  }

  function tasks() {
    byId("tasks").replaceChildren(...state.tasks.map((task) => {
      const row = node("div", "task");
      row.append(node("span", "", task.title));
      const bar = node("div", "bar"), full = node("span");
      if (task.total) { full.style.width = `${Math.min(100, 100 * task.done / task.total)}%`; bar.append(full); }
      const words = [task.total ? `${Math.floor(Math.min(100, 100 * task.done / task.total))}%` : "", clock((now() - instant(task.began)) / 1000), task.note];
      row.append(task.total ? bar : node("span"), node("span", "note", words.filter(Boolean).join(", ")));
      return row;
    }));
  }

  function tiles() {
    const latest = state.latest, over = stale || !state.run || state.run.status !== "running";
    const all = over ? [] : TILES.filter(([name]) => latest[name] !== undefined).map(([name, label]) => [shown(latest[name], KINDS[name].unit), label]);
    if (!over && latest.cpu_user !== undefined) {
      const stolen = latest.cpu_steal || 0, busy = AT_WORK.reduce((sum, name) => sum + (latest[name] || 0), stolen);
      // Like idle time, time that waits for I/O is free for other work; stolen time is not.
      all.push([shown(busy, "ratio"), stolen >= 0.005 ? `processors at work, ${shown(stolen, "ratio")} of it stolen` : "processors at work"]);
    }
    byId("tiles").replaceChildren(...all.map(([number, label]) => {
      const tile = node("div", "tile");
      tile.append(node("div", "number", number), node("div", "label", label));
      return tile;
    }));
  }

  function nice(most) {
    const power = 10 ** Math.floor(Math.log10(most || 1));
    return [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= most) || 10 * power;
  }
  function tick(value, unit) {
    if (unit === "ratio") return `${Math.round(100 * value)}%`;
    const [v, prefix] = scaled(value, 1000, ["", "k", "M", "G"]), bytes = unit === "B/s" ? ` ${prefix}B/s` : prefix;
    return `${Number(v.toPrecision(3))}${value ? bytes : ""}`;
  }

  function chart(panel, from, until) {
    const wide = byId("charts").clientWidth, W = Math.max(280, wide > 1000 ? (wide - 22) / 2 : wide), H = 190, L = 64, R = 8, T = 16, B = 20;
    const width = Math.max(1, until - from);
    const x = (at) => L + (W - L - R) * (at - from) / width;
    // In a stack, a state in which no time was spent is only one more name in the legend.
    const used = panel.names.filter((name, i) => points.some((point) => (panel.stacked && i ? point.values[name] : point.values[name] !== undefined && point.values[name] !== null)));
    const rows = points.filter((point) => used.some((name) => point.values[name] !== undefined));
    let most = panel.most || 0;
    if (!panel.most) for (const row of rows) for (const name of used) most = Math.max(most, row.values[name] || 0);
    most = panel.most || nice(most);
    const y = (value) => H - B - (H - T - B) * Math.min(1, Math.max(0, value / most));
    const unit = KINDS[used[0]].unit;
    const svg = drawn("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img", "aria-label": panel.title });
    state.steps.forEach((step, i) => {
      if (!step.began) return;
      const begin = instant(step.began), end = step.seconds === null ? until : begin + 1000 * step.seconds;
      if (i % 2) svg.append(drawn("rect", { class: "band", x: x(begin), width: Math.max(0, x(Math.min(end, until)) - x(begin)), y: T, height: H - T - B }));
      const room = (x(Math.min(end, until)) - x(begin)) / 6;
      if (room >= 3) svg.append(drawn("text", { x: x(begin) + 2, y: T - 4 }, step.name.slice(0, Math.floor(room))));
    });
    for (const share of [0, 0.5, 1]) {
      svg.append(drawn("line", { class: "grid", x1: L, x2: W - R, y1: y(most * share), y2: y(most * share) }));
      svg.append(drawn("text", { x: L - 5, y: y(most * share) + 4, "text-anchor": "end" }, tick(most * share, unit)));
    }
    const each = STEPS.find((seconds) => width / 1000 / seconds <= 6) || 86400;
    for (let at = 0; at <= width / 1000; at += each) {
      const place = x(from + 1000 * at);
      svg.append(drawn("text", { x: place, y: H - 6, "text-anchor": place > W - 24 ? "end" : at ? "middle" : "start" }, clock(at)));
    }
    for (const mark of state.marks) {
      const at = instant(mark.when);
      if (at >= from && at <= until) {
        const line = drawn("line", { class: "event", x1: x(at), x2: x(at), y1: T, y2: H - B });
        line.append(drawn("title", {}, `${mark.kind}: ${mark.text}`));
        svg.append(line);
      }
    }
    if (panel.stacked) areas(svg, rows, used, x, y);
    else used.forEach((name, i) => line(svg, rows, name, i, x, y));
    const head = node("h3", "", panel.title);
    used.forEach((name, i) => head.append(node("span", `key k${i}`, panel.short[name])));
    const box = node("figure", "chart-live");
    box.append(head, svg);
    return box;
  }

  // A line ends with its step, and where no value came for a while: what is between was not measured.
  function pieces(rows, name) {
    const all = [];
    let before = -Infinity, earlier = -1;
    for (const row of rows) {
      const value = row.values[name];
      if (value === undefined || value === null) continue;
      const at = instant(row.at), step = begun.filter((begin) => begin <= at).length;
      if (step !== earlier || at - before > 1000 * GAP * spread) all.push([]);
      all[all.length - 1].push([at, value]);
      before = at;
      earlier = step;
    }
    return all;
  }
  let spread = 1, begun = [];
  function line(svg, rows, name, i, x, y) {
    for (const piece of pieces(rows, name)) {
      if (piece.length === 1) svg.append(drawn("circle", { class: `dot k${i}`, cx: x(piece[0][0]), cy: y(piece[0][1]), r: 2.5 }));
      else svg.append(drawn("polyline", { class: `line k${i}`, points: piece.map(([at, v]) => `${x(at).toFixed(1)},${y(v).toFixed(1)}`).join(" ") }));
    }
  }
  function areas(svg, rows, names, x, y) {
    const sum = (row, i) => names.slice(0, i + 1).reduce((all, name) => all + (row.values[name] || 0), 0);
    for (let i = names.length - 1; i >= 0; i -= 1) {
      const stacked = rows.map((row) => ({ at: row.at, values: { v: sum(row, i) } }));
      for (const piece of pieces(stacked, "v")) {
        // One value is that of the second before it.
        if (piece.length < 2) piece.unshift([piece[0][0] - 1000, piece[0][1]]);
        const top = piece.map(([at, v]) => `${x(at).toFixed(1)},${y(v).toFixed(1)}`);
        svg.append(drawn("polygon", { class: `area k${i}`, points: [...top, `${x(piece[piece.length - 1][0])},${y(0)}`, `${x(piece[0][0])},${y(0)}`].join(" ") }));
      }
    }
  }

  function charts() {
    if (!points.length || !state.run) return byId("charts").replaceChildren();
    begun = state.steps.map((step) => step.began).filter(Boolean).map(instant);
    const from = Math.min(instant(points[0].at), ...begun);
    const last = instant(points[points.length - 1].at);
    const until = Math.max(from + 30000, state.run.status === "running" ? Math.max(last, now()) : last);
    spread = Math.max(1, (until - from) / 1000 / 600);
    // While it runs: the charts of the step under way. Afterwards: those of all steps.
    const under = state.run.status === "running" ? state.steps.find((step) => step.state === "running" && step.began) : undefined;
    const since = under ? instant(under.began) : -Infinity;
    const fresh = points.filter((point) => instant(point.at) >= since);
    const shownPoints = fresh.length > 3 ? fresh : points;
    const known = (name) => shownPoints.filter((point) => point.values[name] !== undefined).length > 1;
    byId("charts-legend").hidden = false;
    byId("charts").replaceChildren(...PANELS.filter((panel) => (panel.needs || panel.names).some(known)).map((panel) => chart(panel, from, until)));
  }

  function list(id, rows) {
    const at = byId(id), text = rows.map((row) => row.join(" ")).join("\n");
    if (at.dataset.text === text) return;
    at.dataset.text = text;
    at.parentElement.hidden = !rows.length;
    at.replaceChildren(...rows.map(([when, words]) => {
      const one = node("li");
      one.append(node("time", "", when), node("span", "", words));
      return one;
    }));
  }
  const hour = (text) => new Date(instant(text)).toLocaleTimeString("en-GB");
  function lists() {
    list("marks", state.marks.map((mark) => [hour(mark.when), `${mark.kind}: ${mark.text}`]).reverse());
    list("said", state.said.map((one) => [hour(one.at), one.text]).reverse());
    const advice = state.run ? state.run.advice : [];
    byId("advice-part").hidden = !advice.length;
    byId("advice").replaceChildren(...advice.map((words) => node("li", "", words)));
  }

  function report() {
    if (reported || !state.run || state.run.status === "running" || !state.run.path) return;
    reported = true;
    byId("report-part").hidden = byId("to-report").hidden = false;
    const frame = node("iframe");
    frame.title = "the report of the run";
    frame.src = "/report";
    frame.addEventListener("load", () => {
      if (!frame.contentDocument) {
        frame.replaceWith(node("p", "", "It could not be had from here: replayer show has it, and replayer report makes a page of it."));
        return;
      }
      const fit = () => { frame.style.height = `${frame.contentDocument.documentElement.scrollHeight + 24}px`; };
      fit();
      new ResizeObserver(fit).observe(frame.contentDocument.body);
    });
    byId("report-part").append(frame);
  }

  // The latest points, and of the earlier ones of each kind at most 600, equally far apart: a chart of the whole run needs no more.
  function thinned(all) {
    const apart = (instant(all[all.length - 1].at) - instant(all[0].at)) / 600, last = {};
    return all.filter((point, i) => {
      const kind = "cpu_user" in point.values, at = instant(point.at);
      if (i < all.length - 600 && at - last[kind] < apart) return false;
      last[kind] = at;
      return true;
    });
  }

  function all() {
    if (!state) return;
    header(); steps(); tasks(); tiles(); charts(); lists(); report();
  }

  function gone(words, lost) {
    byId("gone").hidden = !words;
    byId("gone").textContent = words;
    byId("gone").classList.toggle("lost", lost);
  }
  // An event stream does not say why it was refused; the server's answer to a request does.
  async function refusal() {
    try {
      const answer = await fetch("/events");
      if (!answer.ok) return (await answer.text()).trim();
      answer.body.cancel();
    } catch { /* it does not answer at all */ }
    return "open the link of the run again";
  }
  const source = new EventSource("/events");
  source.addEventListener("message", (event) => {
    const message = JSON.parse(event.data);
    heard = Date.now();
    stale = false;
    ahead = instant(message.now) - heard;
    state = message.state;
    points = message.whole ? message.points : [...points, ...message.points];
    if (points.length > MOST) points = thinned(points);
    gone("", false);
    all();
  });
  source.addEventListener("error", async () => {
    const over = state && state.run && state.run.status !== "running";
    if (over) {
      source.close();
      return gone("The run has ended, and what stands here is its last state.", false);
    }
    stale = true;
    all();
    // A browser asks again by itself unless it was refused.
    if (source.readyState !== EventSource.CLOSED) return gone("The run does not answer; it is asked again.", true);
    if (!state) byId("status").textContent = "no access";
    gone(`This page is no longer updated, and does not ask again: ${await refusal()}.`, true);
  });
  setInterval(() => { if (!stale && state && state.run && state.run.status === "running") { header(); steps(); tasks(); } }, 1000);
})();

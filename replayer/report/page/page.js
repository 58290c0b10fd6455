"use strict";
(() => {
  let data = { charts: [], series: [] };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // Most are Okabe and Ito's colours, which differ for every kind of colour vision; marks differ as
  // well.  None is red or green: those stand for worse and better alone, on each page.
  const palettes = {
    light: ["#0072b2", "#a07800", "#cc79a7", "#56b4e9", "#6f4fa0", "#555555", "#1b2f6b"],
    dark: ["#56b4e9", "#f0e442", "#e79cc5", "#a9d8ff", "#b79bea", "#bbbbbb", "#7f96e8"],
  };
  const verdicts = new Set(["worse", "better"]);
  const symbols = ["circle", "diamond", "square", "x", "triangle-up", "cross", "star",
    "triangle-left", "triangle-right"];
  const dashes = ["solid", "dash", "dot", "dashdot"];
  const patterns = ["", "/", "x", ".", "-", "+", "|"];
  const config = {
    responsive: true, displaylogo: false, displayModeBar: window.innerWidth < 600 ? false : "hover",
    // These and no others: newer ones may offer to send the chart away.
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    plotlyServerURL: "",
  };
  let printing = false;

  const at = (list, index) => list[(index || 0) % list.length];
  const variable = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const palette = () => (dark.matches && !printing ? palettes.dark : palettes.light);

  // A unit with a prefix of its own gets no second one. "B" would stand for billions.
  const prefixed = /^(?:[nuµm]s|[kMGT]i?B|MHz|seconds?|%)\b|%$|, ms$/;
  const suffixes = { "bytes": "B", "bytes/s": "B/s", "s": "s" };
  function ticks(unit) {
    const plain = unit.replace(/^.*, /, "");
    if (prefixed.test(unit) || prefixed.test(plain)) return { exponentformat: "none", separatethousands: true };
    return { exponentformat: "SI", ticksuffix: Object.hasOwn(suffixes, plain) ? suffixes[plain] : "" };
  }
  function axis(title) {
    return {
      ...ticks(title),
      title: { text: title.replace(/\bus\b/g, "µs"), font: { size: window.innerWidth < 600 ? 11 : 13 } },
      gridcolor: variable("--line"), zerolinecolor: variable("--line"),
      linecolor: variable("--line"), automargin: true,
    };
  }

  function base() {
    return {
      autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: variable("--text"), size: window.innerWidth < 600 ? 11 : 13 },
      margin: { l: 50, r: 15, t: 15, b: 45 }, hovermode: "closest", showlegend: true,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
      modebar: {
        bgcolor: "rgba(0,0,0,0)", color: variable("--quiet"), activecolor: variable("--text"),
      },
    };
  }

  function styled(trace) {
    const judged = verdicts.has(trace.color);
    const color = judged ? variable(`--${trace.color}`) : at(palette(), trace.color);
    const made = { ...trace, marker: { color }, hoverlabel: { namelength: -1 } };
    for (const key of ["color", "dash", "symbol", "symbols", "pattern", "legend", "hover", "width"]) delete made[key];
    if (trace.type === "bar") {
      made.marker = {
        color, line: { color: variable("--text"), width: 0.5 },
        pattern: {
          shape: at(patterns, trace.pattern), fillmode: "overlay", fgcolor: variable("--ground"),
          solidity: 0.25,
        },
      };
      made.textposition = "none";
    } else {
      made.marker = { color, size: 7, symbol: at(symbols, trace.symbol ?? (judged ? 0 : trace.color)) };
      if (trace.symbols) {
        Object.assign(made.marker, { symbol: trace.symbols.map((one) => symbols[one]), size: 11 });
        made.hoverinfo = "text";
        made.cliponaxis = false;
      }
      made.line = { color, width: trace.width ?? 1.5, dash: at(dashes, trace.dash) };
      if (trace.fill) made.fillcolor = `${color}33`;
      if (trace.legend === false) Object.assign(made, { showlegend: false, hoverinfo: "skip" });
    }
    return made;
  }

  // As wide as what a frame took; the colour is whose it is, or the difference to the other side.
  // Places are shares of the width, so that nothing is drawn again where the page gets another one.
  function placed(frames) {
    const whole = [...frames.values];
    for (let i = whole.length - 1; i > 0; i -= 1) whole[frames.parents[i]] += whole[i];
    const places = [];
    const filled = new Array(whole.length).fill(0);
    frames.parents.forEach((parent, i) => {
      const left = parent < 0 ? 0 : places[parent].left + filled[parent];
      if (parent >= 0) filled[parent] += whole[i] / whole[0];
      const depth = parent < 0 ? 0 : places[parent].depth + 1;
      places.push({ left, width: whole[i] / whole[0], depth, whole: whole[i] });
    });
    return places;
  }

  function ground(frames, i) {
    if (frames.colors) return frames.colors[i] < 0 ? "var(--shade)" : `var(--frame-${frames.colors[i]})`;
    const share = Math.min(1, Math.abs(frames.shifts[i]) / (frames.most || 1));
    const way = frames.shifts[i] > 0 ? "--longer" : "--shorter";
    return `color-mix(in srgb, var(${way}) ${Math.round(100 * share)}%, var(--equal))`;
  }

  function frameOf(frames, i, at) {
    const made = document.createElement("div");
    made.className = "frame";
    made.textContent = frames.labels[i];
    made.title = `${frames.labels[i]}\n${at.whole.toPrecision(4)} ${frames.unit}\n${frames.text[i]}`;
    made.style.background = ground(frames, i);
    made.style.top = `calc(${at.depth} * var(--row))`;
    return made;
  }

  function drawFlame(chart) {
    const { frames } = chart;
    const place = document.getElementById(chart.id);
    const places = placed(frames);
    const drawn = places.map((at, i) => frameOf(frames, i, at));
    // Shown is what is below the chosen frame, and all that is above it.
    const show = (chosen) => {
      const { left, width } = places[chosen];
      const end = 1e-9;
      places.forEach((at, i) => {
        const from = Math.max(0, (at.left - left) / width);
        const to = Math.min(1, (at.left + at.width - left) / width);
        drawn[i].hidden = to - from < end;
        drawn[i].style.left = `${100 * from}%`;
        drawn[i].style.width = `${100 * (to - from)}%`;
      });
    };
    drawn.forEach((one, i) => one.addEventListener("click", () => show(i)));
    const field = document.createElement("div");
    field.className = "frames";
    field.style.height = `calc(${chart.rows} * var(--row))`;
    field.append(...drawn);
    place.replaceChildren(field);
    show(0);
    if (frames.bar) place.append(legend(frames));
  }

  function legend(frames) {
    const made = document.createElement("p");
    made.className = "bar";
    const most = frames.most.toPrecision(2);
    made.append(`-${most} `, document.createElement("span"), ` +${most}   ${frames.bar}`);
    return made;
  }

  function draw(chart) {
    const place = document.getElementById(chart.id);
    const wanted = chart.layout;
    // What a reader zoomed into stays, whatever the chart is drawn again for.
    const layout = { ...base(), uirevision: chart.id, xaxis: axis(wanted.x), yaxis: axis(wanted.y) };
    if (wanted.zero) layout.yaxis.rangemode = "tozero";
    if (wanted.log_x) layout.xaxis.type = "log";
    if (wanted.date_x) layout.xaxis.type = "date";
    if (wanted.log_y) Object.assign(layout.yaxis, { type: "log", dtick: 1 });
    if (wanted.range_x) layout.xaxis.range = wanted.range_x;
    if (wanted.every_x) layout.xaxis.dtick = wanted.every_x;
    if (wanted.stack) layout.barmode = "stack";
    if (wanted.ticks_x) {
      layout.xaxis.tickvals = wanted.ticks_x.map((tick) => tick[0]);
      layout.xaxis.ticktext = wanted.ticks_x.map((tick) => tick[1]);
      layout.xaxis.tickangle = 0;
    }
    if (wanted.categories) {
      layout.yaxis.type = "category";
      layout.yaxis.categoryorder = "array";
      layout.yaxis.categoryarray = wanted.categories;
    }
    if (wanted.height) { place.style.height = `${wanted.height}px`; }
    if (wanted.band) {
      // No change: a ratio of 1, on a log axis, or 0 percent.
      const none = wanted.log_x ? 1 : 0;
      layout.shapes = [
        { type: "rect", xref: "x", yref: "paper", x0: wanted.band[0], x1: wanted.band[1], y0: 0, y1: 1,
          fillcolor: variable("--quiet"), opacity: 0.18, line: { width: 0 }, layer: "below" },
        { type: "line", xref: "x", yref: "paper", x0: none, x1: none, y0: 0, y1: 1,
          line: { color: variable("--quiet"), width: 1 }, layer: "below" },
      ];
    }
    if (wanted.lines_x) {
      layout.shapes = wanted.lines_x.map((line) => ({
        type: "line", xref: "x", yref: "paper", x0: line[0], x1: line[0], y0: 0, y1: 1,
        line: { color: variable("--quiet"), width: 1, dash: "dot" }, layer: "below",
      }));
    }
    Plotly.react(place, chart.traces.map(styled), layout, config);
    if (wanted.lines_x) {
      place.removeAllListeners("plotly_relayout");
      place.on("plotly_relayout", () => nameLines(place, wanted.lines_x));
      nameLines(place, wanted.lines_x);
    }
  }

  // A name that would lie on that of the line after it is left out: zooming in shows it.
  function nameLines(place, lines) {
    const axis = place._fullLayout.xaxis;
    let next = Infinity;
    const shown = [...lines].reverse().filter((line) => {
      const left = axis.l2p(line[0]);
      if (left < 0 || left > axis._length || next - left < 14) return false;
      next = left;
      return true;
    });
    const before = (place.layout.annotations ?? []).map((one) => one.x);
    if (String(before) === String(shown.map((line) => line[0]))) return;
    Plotly.relayout(place, {
      annotations: shown.map((line) => ({
        xref: "x", yref: "paper", x: line[0], y: 0, text: line[1], showarrow: false,
        textangle: -90, xanchor: "left", yanchor: "bottom",
        font: { color: variable("--quiet"), size: 10 },
      })),
    });
  }

  function unpack(column) {
    const bytes = atob(column.data);
    const values = new Array(bytes.length / 2);
    for (let i = 0; i < values.length; i += 1) {
      const whole = bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8);
      values[i] = whole === 65535 ? null : column.low + column.step * whole;
    }
    return values;
  }

  function seconds(times) {
    if (times.data) return unpack(times);
    return Array.from({ length: times.count }, (_, i) => times.first + times.every * i);
  }

  function drawSeries(index) {
    const entry = data.series[index];
    const place = document.getElementById("series");
    if (!entry || !place) return null;
    // A series that knows its day is drawn over the time of day.
    const when = (at) => (entry.epoch === undefined ? at : entry.epoch + 1000 * at);
    const x = seconds(entry.times).map(when);
    const traces = [];
    const panels = [...entry.panels];
    if (entry.marks.length) panels.push({ title: "events", events: true, lines: [] });
    const layout = { ...base(), uirevision: index, hovermode: "x unified", xaxis: axis("seconds") };
    if (entry.epoch !== undefined) layout.xaxis = { ...axis(""), type: "date" };
    if (entry.height) place.style.height = `${entry.height}px`;
    const weights = panels.map((panel, i) => (panel.events ? 0.35 : i === 0 ? 1.5 : 1));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    // Each panel has its own legend above it, so that a colour means one line of that panel.
    const tall = entry.height || place.clientHeight || 600;
    const above = panels.map((panel, i) => {
      const rows = window.innerWidth < 600 ? Math.max(1, panel.lines.length) : 1;
      return i ? (12 + 18 * rows) / tall : 0;
    });
    const room = 1 - above.reduce((sum, share) => sum + share, 0);
    let top = 1;
    let color = 0;
    panels.forEach((panel, i) => {
      const height = (weights[i] / total) * room;
      const name = i ? `y${i + 1}` : "y";
      const bottom = Math.max(0, top - height);
      layout[i ? `yaxis${i + 1}` : "yaxis"] = {
        ...axis(panel.title), domain: [bottom, top], rangemode: "tozero",
        ...(panel.events ? { showticklabels: false, showgrid: false, range: [-1, 1] } : {}),
      };
      const legend = i ? `legend${i + 1}` : "legend";
      layout[legend] = { ...layout.legend, y: top, yanchor: "bottom" };
      top = bottom - (above[i + 1] ?? 0);
      panel.lines.forEach((line) => {
        traces.push({
          ...styled({
            type: "scatter", mode: x.length < 30 ? "lines+markers" : "lines", name: line.name, x,
            y: unpack(line), color: line.color ?? color, dash: line.dash,
          }),
          yaxis: name, xaxis: "x", legend, connectgaps: false,
          ...(panel.stacked ? { stackgroup: name } : {}),
        });
        color += 1;
      });
      if (panel.events) {
        traces.push({
          ...styled({
            type: "scatter", mode: "markers", name: "events", color,
            x: entry.marks.map((mark) => when(mark[0])), y: entry.marks.map(() => 0),
            text: entry.marks.map((mark) => `${mark[1]}: ${mark[2]}`),
          }),
          yaxis: name, xaxis: "x", legend, hovertemplate: "%{text}<extra></extra>",
        });
      }
    });
    layout.xaxis.anchor = panels.length > 1 ? `y${panels.length}` : "y";
    layout.shapes = entry.marks.map((mark) => ({
      type: "line", xref: "x", yref: "paper", x0: when(mark[0]), x1: when(mark[0]), y0: 0, y1: 1,
      line: { color: variable("--quiet"), width: 1, dash: "dot" },
    }));
    if (entry.window) {
      layout.shapes.push({
        type: "rect", xref: "x", yref: "paper", x0: entry.window[0], x1: entry.window[1], y0: 0, y1: 1,
        fillcolor: variable("--quiet"), opacity: 0.08, line: { width: 0 }, layer: "below",
      });
    }
    return Plotly.react(place, traces, layout, config);
  }

  async function unpacked(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function load() {
    data = JSON.parse(await unpacked("data"));
    // The page's policy knows this script by its hash.
    const script = document.createElement("script");
    script.textContent = await unpacked("plotly");
    document.head.append(script);
  }

  const choice = document.getElementById("series-choice");
  function chooseSeries() {
    if (!choice) return;
    data.series.forEach((entry, i) => {
      const text = document.createElement("textarea");
      const side = entry.side === entry.run ? "" : `${entry.side}: `;
      text.innerHTML = `${side}${entry.step}, repeat ${entry.repeat} (${entry.run})`;
      choice.add(new Option(text.value, String(i)));
    });
    // What is looked at first: RIOPS if there are any, else the longest.
    const worth = (entry) =>
      (entry.panels.some((panel) => panel.lines.some((line) => line.name.endsWith("riops"))) ? 1e9 : 0)
      + seconds(entry.times).length;
    const best = data.series.reduce((found, entry, i) =>
      (worth(entry) > worth(data.series[found]) ? i : found), 0);
    choice.value = String(best);
    choice.addEventListener("change", () => drawSeries(Number(choice.value)));
    const move = (by) => () => {
      const next = Number(choice.value) + by;
      if (next >= 0 && next < data.series.length) {
        choice.value = String(next);
        drawSeries(next);
      }
    };
    document.getElementById("series-back").addEventListener("click", move(-1));
    document.getElementById("series-on").addEventListener("click", move(1));
  }

  // A spreadsheet takes text that begins so for a formula; a number may begin with its sign.
  const formula = /^[=+\-@\uff1d\uff0b\uff0d\uff20](?!$)/;

  function copied(cell) {
    const words = cell.innerText.replace(/\s+/g, " ").trim();
    return formula.test(words) && !cell.classList.contains("number") ? `'${words}` : words;
  }

  function copyTable(table, button) {
    const rows = [...table.rows].map((row) => [...row.cells].map(copied).join("\t"));
    const area = document.createElement("textarea");
    area.value = rows.join("\n");
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    button.textContent = done ? "copied" : "not allowed";
    window.setTimeout(() => { button.textContent = "copy"; }, 1500);
  }

  function copyable() {
    document.querySelectorAll(".scroll > table").forEach((table) => {
      const button = document.createElement("button");
      button.className = "copy";
      button.type = "button";
      button.textContent = "copy";
      button.title = "copy the table, for a spreadsheet or a ticket";
      button.addEventListener("click", () => copyTable(table, button));
      table.parentElement.before(button);
    });
  }

  const folded = (place) => place.closest("details:not([open])");

  function drawAll() {
    data.charts.filter((chart) => !chart.frames && !folded(document.getElementById(chart.id))).forEach(draw);
    if (choice && data.series.length && !folded(choice)) drawSeries(Number(choice.value || 0));
  }

  // What is folded has no width yet: it is drawn when it is opened.
  function drawUnfolded() {
    document.querySelectorAll("details").forEach((fold) => fold.addEventListener("toggle", () => {
      if (fold.open && fold.querySelector(".chart")) drawAll();
    }));
  }

  function print(on) {
    printing = on;
    document.querySelectorAll("details.printed").forEach((fold) => { fold.open = on; });
    drawAll();
    document.querySelectorAll(".chart.js-plotly-plot").forEach((place) => {
      // A page is about this wide in Plotly's pixels; on screen the chart follows the window again.
      Plotly.relayout(place, on ? { width: 700, autosize: false } : { width: null, autosize: true });
    });
  }

  async function begin() {
    copyable();
    try {
      await load();
    } catch (error) {
      const missing = document.getElementById("charts-missing");
      missing.textContent = "The charts of this page want a browser of 2023 or later.";
      missing.hidden = false;
      return;
    }
    chooseSeries();
    data.charts.filter((chart) => chart.frames).forEach(drawFlame);
    drawAll();
    drawUnfolded();
    dark.addEventListener("change", drawAll);
    window.addEventListener("beforeprint", () => print(true));
    window.addEventListener("afterprint", () => print(false));
    document.documentElement.dataset.ready = "yes";
  }

  begin();
})();

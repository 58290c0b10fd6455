"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // Okabe and Ito's colours, which differ for every kind of colour vision; marks differ as well.
  const palettes = {
    light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#a07800", "#555555"],
    dark: ["#56b4e9", "#ff9a5c", "#3fd0a4", "#e79cc5", "#a9d8ff", "#f0e442", "#bbbbbb"],
  };
  const symbols = ["circle", "diamond", "square", "x", "triangle-up", "cross", "star"];
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

  function axis(title) {
    return {
      title: { text: title, font: { size: window.innerWidth < 600 ? 11 : 13 } },
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
    const color = at(palette(), trace.color);
    const made = { ...trace, marker: { color }, hoverlabel: { namelength: -1 } };
    delete made.color; delete made.dash; delete made.symbol; delete made.pattern;
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
      made.marker = { color, size: 7, symbol: at(symbols, trace.symbol ?? trace.color) };
      made.line = { color, width: 1.5, dash: at(dashes, trace.dash) };
    }
    return made;
  }

  // As wide as what a frame took; the colour is whose it is, or the difference to the other side.
  function icicle(trace, bar) {
    const made = {
      ...trace, branchvalues: "remainder", tiling: { orientation: "v" }, textinfo: "label",
      hovertemplate: `%{label}<br>%{value:.4g} ${trace.unit}<br>%{text}<extra></extra>`,
      pathbar: { thickness: 20 }, leaf: { opacity: 1 }, marker: { line: { width: 0.5, color: variable("--ground") } },
    };
    delete made.colors; delete made.shifts; delete made.unit; delete made.most;
    if (trace.colors) {
      made.marker.colors = trace.colors.map(
        (color) => (color === null ? variable("--shade") : at(palette(), color)));
    }
    if (trace.shifts) {
      const most = trace.most || 1;
      const middle = dark.matches && !printing ? "#3a414d" : "#e6e9ee";
      Object.assign(made.marker, {
        colors: trace.shifts, cmin: -most, cmid: 0, cmax: most, showscale: true,
        colorscale: [[0, "#2f7fd0"], [0.5, middle], [1, "#d8352a"]],
        colorbar: {
          orientation: "h", thickness: 10, y: 0, yanchor: "top", outlinewidth: 0,
          title: { text: bar, side: "bottom" },
        },
      });
    }
    return made;
  }

  function drawFlame(place, chart) {
    const wanted = chart.layout;
    place.style.height = `${wanted.height + (wanted.bar ? 70 : 0)}px`;
    const layout = { ...base(), margin: { l: 0, r: 0, t: 25, b: wanted.bar ? 70 : 0 } };
    return Plotly.react(place, chart.traces.map((one) => icicle(one, wanted.bar)), layout, config);
  }

  function draw(chart) {
    const place = document.getElementById(chart.id);
    const wanted = chart.layout;
    if (wanted.flame) return drawFlame(place, chart);
    const layout = { ...base(), xaxis: axis(wanted.x), yaxis: axis(wanted.y) };
    if (wanted.zero) layout.yaxis.rangemode = "tozero";
    if (wanted.log_x) layout.xaxis.type = "log";
    if (wanted.log_y) Object.assign(layout.yaxis, { type: "log", dtick: "D2" });
    if (wanted.range_x) layout.xaxis.range = wanted.range_x;
    if (wanted.every_x) layout.xaxis.dtick = wanted.every_x;
    if (wanted.stack) layout.barmode = "stack";
    if (wanted.ticks_x) {
      layout.xaxis.tickvals = wanted.ticks_x.map((tick) => tick[0]);
      layout.xaxis.ticktext = wanted.ticks_x.map((tick) => tick[1]);
    }
    if (wanted.categories) {
      layout.yaxis.type = "category";
      layout.yaxis.categoryorder = "array";
      layout.yaxis.categoryarray = wanted.categories;
    }
    if (wanted.height) { place.style.height = `${wanted.height}px`; }
    if (wanted.band) {
      layout.shapes = [
        { type: "rect", xref: "x", yref: "paper", x0: wanted.band[0], x1: wanted.band[1], y0: 0, y1: 1,
          fillcolor: variable("--quiet"), opacity: 0.18, line: { width: 0 }, layer: "below" },
        { type: "line", xref: "x", yref: "paper", x0: 1, x1: 1, y0: 0, y1: 1,
          line: { color: variable("--quiet"), width: 1 }, layer: "below" },
      ];
    }
    return Plotly.react(place, chart.traces.map(styled), layout, config);
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
    const layout = { ...base(), hovermode: "x unified", xaxis: axis("seconds") };
    if (entry.epoch !== undefined) layout.xaxis = { ...axis(""), type: "date" };
    if (entry.height) place.style.height = `${entry.height}px`;
    const weights = panels.map((panel, i) => (panel.events ? 0.35 : i === 0 ? 1.5 : 1));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    let top = 1;
    let color = 0;
    panels.forEach((panel, i) => {
      const height = (weights[i] / total) * 0.94;
      const name = i ? `y${i + 1}` : "y";
      const bottom = Math.max(0, top - height);
      layout[i ? `yaxis${i + 1}` : "yaxis"] = {
        ...axis(panel.title), domain: [bottom, top], rangemode: "tozero",
        ...(panel.events ? { showticklabels: false, showgrid: false, range: [-1, 1] } : {}),
      };
      top = bottom - 0.06 / Math.max(1, panels.length - 1);
      panel.lines.forEach((line) => {
        traces.push({
          ...styled({
            type: "scatter", mode: x.length < 30 ? "lines+markers" : "lines", name: line.name, x,
            y: unpack(line), color: line.color ?? color, dash: line.dash,
          }),
          yaxis: name, xaxis: "x", connectgaps: false,
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
          yaxis: name, xaxis: "x", hovertemplate: "%{text}<extra></extra>",
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

  const choice = document.getElementById("series-choice");
  function chooseSeries() {
    if (!choice) return;
    data.series.forEach((entry, i) => {
      const text = document.createElement("textarea");
      text.innerHTML = `${entry.side}: ${entry.step}, repeat ${entry.repeat} (${entry.run})`;
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

  function drawAll() {
    data.charts.forEach(draw);
    if (choice) drawSeries(Number(choice.value || 0));
  }

  function print(on) {
    printing = on;
    drawAll();
    document.querySelectorAll(".chart").forEach((place) => {
      // A page is about this wide in Plotly's pixels; on screen the chart follows the window again.
      Plotly.relayout(place, on ? { width: 700, autosize: false } : { width: null, autosize: true });
    });
  }

  chooseSeries();
  copyable();
  drawAll();
  dark.addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  document.documentElement.dataset.ready = "yes";
})();

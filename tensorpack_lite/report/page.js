"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const controls = document.getElementById("controls");
  const tip = document.getElementById("tip");
  const hiddenRuns = new Set();
  let smoothing = 0;
  const format = value => value === null ? "not finite"
    : Math.abs(value) >= 1000 && Math.abs(value) < 1e7 ? value.toLocaleString("en-US", {maximumFractionDigits: 1})
    : Number(value.toPrecision(4)).toString();
  const charts = data.charts.map((chart, number) => {
    const svg = document.getElementById("chart" + number);
    for (const curve of chart.curves) {
      let step = 0;
      curve.x = curve.x.map(difference => step += difference);
      for (const member of curve.members || []) {
        let step = 0;
        member.x = member.x.map(difference => step += difference);
      }
      curve.isHidden = false;
    }
    return {...chart, svg, card: svg.closest(".card"), groups: [...svg.querySelectorAll(".curves > g")],
            cursor: svg.querySelector(".cursor")};
  });
  document.documentElement.classList.add("scripted");

  // The average of the values so far, whose weights decrease exponentially, without bias to the first ones.
  const smooth = values => {
    if (!smoothing) return values;
    let sum = 0, weight = 0;
    return values.map(value => {
      if (value === null) return null;
      sum = smoothing * sum + (1 - smoothing) * value;
      weight = smoothing * weight + (1 - smoothing);
      return sum / weight;
    });
  };
  const placeX = (chart, step) => {
    const [left, , right] = chart.box, [low, high] = chart.x;
    return left + (step - low) / (high - low) * (right - left);
  };
  const placeY = (chart, value) => {
    const [, top, , bottom] = chart.box, [low, high] = chart.isLog ? chart.log : chart.linear;
    if (value === null || chart.isLog && value <= 0) return null;
    return bottom - ((chart.isLog ? Math.log10(value) : value) - low) / (high - low) * (bottom - top);
  };
  const path = (chart, curve, values) => {
    let words = "", isDown = false;
    curve.x.forEach((step, k) => {
      const y = placeY(chart, values[k]);
      if (y !== null) words += (isDown ? "L" : "M") + placeX(chart, step).toFixed(1) + " " + y.toFixed(1);
      isDown = y !== null;
    });
    return words;
  };
  // The band around a mean; on a logarithmic scale, it ends at the bottom.
  const band = (chart, curve, values) => {
    const deviations = smooth(curve.deviation);
    let words = "", above = [], below = [];
    const close = () => {
      if (above.length) words += "M" + [...above, ...below.reverse()].join("L") + "z";
      above = [], below = [];
    };
    curve.x.forEach((step, k) => {
      const isThere = values[k] !== null && deviations[k] !== null;
      const high = isThere ? placeY(chart, values[k] + deviations[k]) : null;
      if (high === null) return close();
      const x = placeX(chart, step).toFixed(1), low = placeY(chart, values[k] - deviations[k]) ?? chart.box[3];
      above.push(x + " " + high.toFixed(1));
      below.push(x + " " + low.toFixed(1));
    });
    close();
    return words;
  };
  const draw = chart => {
    chart.svg.querySelector(".axis.linear").toggleAttribute("hidden", chart.isLog);
    chart.svg.querySelector(".axis.log")?.toggleAttribute("hidden", !chart.isLog);
    chart.curves.forEach((curve, k) => {
      const group = chart.groups[k];
      group.toggleAttribute("hidden", curve.isHidden || hiddenRuns.has(curve.run));
      curve.shown = smooth(curve.y);
      group.querySelector("path").setAttribute("d", path(chart, curve, curve.shown));
      if (curve.deviation) {
        group.querySelector(".band").setAttribute("d", band(chart, curve, curve.shown));
        group.querySelectorAll(".member").forEach((line, m) => {
          line.setAttribute("d", path(chart, curve.members[m], smooth(curve.members[m].y)));
        });
      }
      for (const dot of group.querySelectorAll("circle")) {
        const y = placeY(chart, curve.shown.find(value => value !== null));
        if (y !== null) dot.setAttribute("cy", y);
      }
      let raw = group.querySelector(".raw");
      if (smoothing && !raw) {
        raw = document.createElementNS(chart.svg.namespaceURI, "path");
        raw.setAttribute("class", "raw");
        group.append(raw);
      }
      raw?.setAttribute("d", smoothing ? path(chart, curve, curve.y) : "");
    });
  };
  const setLog = (chart, isLog) => {
    if (chart.log === null && isLog) return;
    chart.isLog = isLog;
    chart.card.querySelector(`[data-log="${charts.indexOf(chart)}"]`)?.setAttribute("aria-pressed", isLog);
    draw(chart);
  };

  // Controls of all charts
  if (controls) {
    const slider = controls.querySelector("#smoothing");
    slider.addEventListener("input", () => {
      smoothing = Number(slider.value);
      controls.querySelector("output").textContent = smoothing ? smoothing.toFixed(2) : "off";
      charts.forEach(draw);
    });
    controls.querySelector("#filter").addEventListener("input", event => {
      const words = event.target.value.toLowerCase();
      for (const card of document.querySelectorAll(".card")) {
        card.hidden = !card.dataset.names.toLowerCase().includes(words);
      }
    });
    for (const button of controls.querySelectorAll("[data-scale]")) {
      button.addEventListener("click", () => charts.forEach(chart => setLog(chart, button.dataset.scale === "log")));
    }
  }
  for (const button of document.querySelectorAll("[data-log]")) {
    const chart = charts[button.dataset.log];
    button.addEventListener("click", () => setLog(chart, !chart.isLog));
  }
  for (const button of document.querySelectorAll("[data-curve]")) {
    const [number, k] = button.dataset.curve.split("/"), chart = charts[number];
    button.addEventListener("click", () => {
      chart.curves[k].isHidden = !chart.curves[k].isHidden;
      button.setAttribute("aria-pressed", !chart.curves[k].isHidden);
      draw(chart);
    });
  }
  for (const button of document.querySelectorAll("[data-run]")) {
    button.addEventListener("click", () => {
      const run = Number(button.dataset.run);
      if (!hiddenRuns.delete(run)) hiddenRuns.add(run);
      button.setAttribute("aria-pressed", !hiddenRuns.has(run));
      charts.forEach(draw);
    });
  }

  // The cursor, which shows the same step in all charts
  const nearest = (steps, step) => {
    let low = 0, high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - steps[low - 1] < steps[low] - step ? low - 1 : low;
  };
  const hide = () => {
    tip.hidden = true;
    for (const chart of charts) chart.cursor.setAttribute("class", "cursor");
  };
  const show = (chart, event) => {
    const bounds = chart.svg.getBoundingClientRect(), [left, , right] = chart.box, [low, high] = chart.x;
    const x = (event.clientX - bounds.left) / bounds.width * chart.svg.viewBox.baseVal.width;
    const visible = chart.curves.filter(curve => !curve.isHidden && !hiddenRuns.has(curve.run) && curve.x.length);
    if (!visible.length) return hide();
    const wanted = low + (x - left) / (right - left) * (high - low);
    const steps = visible.map(curve => curve.x[nearest(curve.x, wanted)]);
    const step = steps.reduce((best, one) => Math.abs(one - wanted) < Math.abs(best - wanted) ? one : best);
    const lines = [["Step " + step.toLocaleString("en-US") + epochAt(visible[0].run, step), ""]];
    for (const curve of visible) {
      const k = nearest(curve.x, step);
      const at = curve.x[k] === step ? "" : ` (step ${curve.x[k].toLocaleString("en-US")})`;
      const around = curve.deviation ? " \u00b1 " + format(curve.deviation[k]) : "";
      lines.push([curve.label + at, format(curve.shown ? curve.shown[k] : curve.y[k]) + around, chart.curves.indexOf(curve)]);
    }
    tip.replaceChildren(...lines.map(([label, value, k]) => {
      const line = document.createElement("div"), text = document.createElement("span");
      text.textContent = label;
      if (k !== undefined) {
        const swatch = document.createElement("i");
        swatch.className = chart.groups[k].getAttribute("class").replace("curve", "swatch");
        line.append(swatch);
      }
      const number = document.createElement("b");
      number.textContent = value;
      line.append(text, number);
      return line;
    }));
    tip.hidden = false;
    const width = tip.offsetWidth, page = document.documentElement.clientWidth;
    const place = event.clientX + 18 + width > page ? event.clientX - 18 - width : event.clientX + 18;
    tip.style.left = Math.max(4, Math.min(place, page - width - 4)) + window.scrollX + "px";
    tip.style.top = event.clientY + window.scrollY + 16 + "px";
    for (const other of charts) {
      const place = placeX(other, step), isInside = place >= other.box[0] - 1 && place <= other.box[2] + 1;
      other.cursor.setAttribute("x1", place);
      other.cursor.setAttribute("x2", place);
      other.cursor.setAttribute("class", isInside ? "cursor on" : "cursor");
    }
  };
  const epochAt = (run, step) => {
    const epochs = data.epochs[run];
    if (!epochs || !epochs.steps.length) return "";
    let k = epochs.steps.findIndex(last => last >= step);
    return k < 0 ? "" : `, epoch ${epochs.numbers[k]}`;
  };
  for (const chart of charts) {
    chart.svg.addEventListener("pointermove", event => show(chart, event));
    chart.svg.addEventListener("pointerdown", event => show(chart, event));
    chart.svg.addEventListener("pointerleave", hide);
  }
  addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("details")) one.open = true;
  });
})();

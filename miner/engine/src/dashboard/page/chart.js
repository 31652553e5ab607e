// Draws hashrates over time: a chart with axes, and small lines for tables. Inline SVG, no library.

import { h, s, show } from "./dom.js";
import { clock, rate, scaled } from "./format.js";

const HEIGHT = 232;
const MARGIN = { left: 44, right: 10, top: 22, bottom: 24 };
/** The chart is at least so many points wide, so that the first points do not fill it. */
const POINTS_MIN = 12;
/** Seconds between two marks of the time axis. */
const TIME_STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600];

/** The sum of all series at each point; null where none has a reading. */
export function total(history) {
  return Array.from({ length: history.points }, (_, index) => {
    const readings = history.series.map((one) => one.rates[index]).filter((value) => value !== null);
    return readings.length > 0 ? readings.reduce((sum, value) => sum + value, 0) : null;
  });
}

/** The mean of the readings; null if there are none. */
export function mean(values) {
  const readings = values.filter((value) => value !== null);
  return readings.length > 0 ? readings.reduce((sum, value) => sum + value, 0) / readings.length : null;
}

/** A small line for a table. */
export function sparkline(values, label) {
  const width = 120;
  const height = 28;
  const top = Math.max(...values.map((value) => value ?? 0), 1e-9) * 1.05;
  const x = (index) => (index * (width - 2)) / Math.max(values.length - 1, 1) + 1;
  const y = (value) => height - 2 - (value / top) * (height - 4);
  return s(
    "svg",
    { class: "spark", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, preserveAspectRatio: "none" },
    s("path", { class: "line", d: path(values, x, y), "vector-effect": "non-scaling-stroke" }),
  );
}

/** Whether there is a reading, and none before and after it. */
const isAlone = (values, index) =>
  values[index] !== null && (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null;

/** The path of a line that is interrupted where there are no readings. */
function path(values, x, y) {
  const parts = [];
  values.forEach((value, index) => {
    if (value === null) return;
    const place = `${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    const begins = index === 0 || values[index - 1] === null;
    parts.push(begins ? `M${place}` : `L${place}`);
  });
  return parts.join("");
}

/** The area below a line, for each uninterrupted part. */
function area(values, x, y) {
  const parts = [];
  let begin = -1;
  for (let index = 0; index <= values.length; index += 1) {
    const has = index < values.length && values[index] !== null;
    if (has && begin < 0) begin = index;
    if (!has && begin >= 0) {
      const line = values.slice(begin, index).map((value, at) => `L${x(begin + at).toFixed(1)} ${y(value).toFixed(1)}`);
      parts.push(`M${x(begin).toFixed(1)} ${y(0).toFixed(1)}${line.join("")}L${x(index - 1).toFixed(1)} ${y(0).toFixed(1)}Z`);
      begin = -1;
    }
  }
  return parts.join("");
}

/** A round number that is not below `value`, and the distance of its marks. */
function roundTop(value) {
  const raw = Math.max(value, 1e-9) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw) * power;
  return { top: Math.ceil((value * 1.02) / step) * step || step, step };
}

/** A chart that lives in `figure`: it redraws itself when its width changes, and follows pointer
 * and arrow keys. */
export class RateChart {
  constructor() {
    this.drawing = s("svg", { class: "chart", tabindex: 0, role: "img" });
    this.readout = h("p", { class: "readout" });
    this.figure = h("figure", { class: "chart-figure" }, this.drawing, this.readout);
    this.at = null;
    this.model = null;
    new ResizeObserver(() => this.draw()).observe(this.figure);
    this.drawing.addEventListener("pointermove", (event) => this.point(event));
    this.drawing.addEventListener("pointerleave", () => this.select(null));
    this.drawing.addEventListener("blur", () => this.select(null));
    this.drawing.addEventListener("keydown", (event) => this.key(event));
  }

  /** Shows `values`, the last of which ended at `endSecs` and covers `stepSecs`. */
  update(model) {
    this.model = model;
    this.draw();
  }

  /** The places of this model on the drawing. */
  layout() {
    const { values, stepSecs, endSecs, pointsMax } = this.model;
    const width = Math.max(this.figure.clientWidth, 240);
    const first = values.findIndex((value) => value !== null);
    const known = first < 0 ? 0 : values.length - first;
    const points = Math.min(Math.max(known, POINTS_MIN), pointsMax);
    const shown = values.slice(-points);
    const padded = [...Array(points - shown.length).fill(null), ...shown];
    const { top, step } = roundTop(Math.max(...padded.map((value) => value ?? 0)));
    const inner = { width: width - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };
    // A point stands at the middle of its time.
    const x = (index) => MARGIN.left + ((index + 0.5) / points) * inner.width;
    const y = (value) => MARGIN.top + inner.height - (value / top) * inner.height;
    const timeOf = (index) => endSecs - (points - index - 0.5) * stepSecs;
    return { width, points, padded, top, step, inner, x, y, timeOf, beginSecs: endSecs - points * stepSecs };
  }

  draw() {
    if (!this.model) return;
    const place = this.layout();
    const { width, padded, x, y } = place;
    const { label, endSecs } = this.model;
    const known = padded.filter((value) => value !== null);
    const summary = known.length > 0
      ? `${label} from ${clock(place.beginSecs)} to ${clock(endSecs)}: between ${rate(Math.min(...known))} and ${rate(Math.max(...known))}. Arrow keys read single points.`
      : `${label}: no readings yet`;
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.drawing.setAttribute("width", width);
    this.drawing.setAttribute("height", HEIGHT);
    this.drawing.setAttribute("aria-label", summary);
    show(
      this.drawing,
      this.rateAxis(place),
      this.timeAxis(place),
      s("path", { class: "area", d: area(padded, x, y) }),
      s("path", { class: "line", d: path(padded, x, y) }),
      padded.map((value, index) => (isAlone(padded, index) ? s("circle", { class: "dot", cx: x(index), cy: y(value), r: 3 }) : null)),
      known.length === 0
        ? s("text", { class: "note", x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, this.model.empty)
        : null,
      this.cursor(place),
    );
  }

  rateAxis({ width, top, step, y }) {
    const marks = [];
    // The marks have one unit, that of the highest.
    const [, unit] = scaled(top, "H/s");
    const factor = Number(top) / Number(scaled(top, "H/s")[0]);
    for (let value = 0; value <= top * 1.001; value += step) {
      const text = Number((value / factor).toFixed(2)).toString();
      marks.push(
        s("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
        s("text", { class: "mark", x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, text),
      );
    }
    marks.push(s("text", { class: "mark unit", x: MARGIN.left - 6, y: 10, "text-anchor": "end" }, unit));
    return marks;
  }

  timeAxis({ inner, beginSecs }) {
    const { endSecs } = this.model;
    const length = endSecs - beginSecs;
    const most = Math.max(2, Math.floor(inner.width / 70));
    const step = TIME_STEPS.find((one) => length / one <= most) ?? 43200;
    const zone = new Date(endSecs * 1000).getTimezoneOffset() * 60;
    const marks = [];
    for (let at = Math.ceil((beginSecs - zone) / step) * step + zone; at <= endSecs; at += step) {
      const x = MARGIN.left + ((at - beginSecs) / length) * inner.width;
      // A mark at the very edge would be cut off.
      const near = x > MARGIN.left + inner.width - 14;
      marks.push(
        s("line", { class: "tick", x1: x, x2: x, y1: HEIGHT - MARGIN.bottom, y2: HEIGHT - MARGIN.bottom + 4 }),
        s("text", { class: "mark", x, y: HEIGHT - 6, "text-anchor": near ? "end" : "middle" }, clock(at)),
      );
    }
    return marks;
  }

  cursor({ padded, x, y, timeOf, inner }) {
    const at = this.at === null ? null : Math.min(this.at, padded.length - 1);
    if (at === null) {
      show(this.readout, this.model.caption);
      return null;
    }
    const value = padded[at];
    const time = clock(timeOf(at), this.model.stepSecs < 60);
    show(this.readout, h("strong", null, value === null ? "no reading" : rate(value)), ` at ${time}`);
    return s(
      "g",
      { class: "cursor" },
      s("line", { x1: x(at), x2: x(at), y1: MARGIN.top, y2: MARGIN.top + inner.height }),
      value === null ? null : s("circle", { cx: x(at), cy: y(value), r: 4 }),
    );
  }

  point(event) {
    if (!this.model) return;
    const { points, inner, width } = this.layout();
    const box = this.drawing.getBoundingClientRect();
    const x = ((event.clientX - box.left) * width) / box.width;
    const index = Math.floor(((x - MARGIN.left) / inner.width) * points);
    this.select(Math.max(0, Math.min(points - 1, index)));
  }

  key(event) {
    if (!this.model) return;
    const last = this.layout().points - 1;
    const at = this.at ?? last;
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, PageUp: at - 10, PageDown: at + 10 };
    if (event.key === "Escape") this.select(null);
    else if (event.key in moves) {
      event.preventDefault();
      this.readout.setAttribute("aria-live", "polite");
      this.select(Math.max(0, Math.min(last, moves[event.key])));
    }
  }

  select(index) {
    if (this.at === index) return;
    this.at = index;
    this.draw();
  }
}

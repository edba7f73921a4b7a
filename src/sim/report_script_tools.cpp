#include "sim/report_page.h"

namespace rubato {

std::string_view page_script_tools() {
  return R"js('use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const state = {group: 0, hidden: new Set(), sort: {column: -1, direction: 1}};

// --- Elements: text always becomes a text node ---
function fill(node, attributes, children) {
  for (const name in attributes) {
    if (attributes[name] != null) node.setAttribute(name, attributes[name]);
  }
  node.append(...children);
  return node;
}
const el = (tag, attributes, ...children) =>
    fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) =>
    fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
const colour = policy => 'var(--c' + policy % 16 + ')';
// From the ninth policy on, lines are dashed; colours repeat after sixteen.
const dash = policy => policy < 8 ? null : ['6 3', '2 3', '9 3 2 3'][Math.floor(policy / 8) % 3];
const swatch = policy => el('span', {class: 'swatch', style: 'background:' + colour(policy)});

// --- Numbers ---
const two = n => String(n).padStart(2, '0');
function duration(s) {
  if (s == null) return '–';
  if (s === 0) return '0s';
  if (s < 9.95) return s.toFixed(1) + 's';
  const sec = Math.round(s), min = Math.round(s / 60), hours = Math.round(s / 3600);
  if (sec < 60) return sec + 's';
  if (sec < 3600) return Math.floor(sec / 60) + 'm' + two(sec % 60) + 's';
  if (min < 1440) return Math.floor(min / 60) + 'h' + two(min % 60) + 'm';
  return Math.floor(hours / 24) + 'd' + two(hours % 24) + 'h';
}
// Omits parts that are zero: "1d12h", "30m".
function tick(s) {
  if (s === 0) return '0';
  if (s < 1) return s + 's';
  let text = '';
  for (const [unit, length] of [['d', 86400], ['h', 3600], ['m', 60], ['s', 1]]) {
    const n = Math.floor(s / length + 1e-9);
    if (n) text += n + unit;
    s -= n * length;
  }
  return text;
}
const percent = r => r == null ? '–' : (100 * r).toFixed(1) + '%';
const times = r => r == null || !isFinite(r) ? '–' : r.toFixed(2) + 'x';
const count = n => n == null ? '–' : Math.round(n).toLocaleString('en-US');
const short = n => n == null ? '–' : n >= 100 || Number.isInteger(n) ? count(n) : n.toFixed(1);
const ratio = n => n == null ? '–' : n < 99.995 ? n.toFixed(2) : count(n);
function milliseconds(ms) {
  if (ms == null) return '–';
  if (ms < 0.0995) return (ms * 1000).toFixed(0) + 'us';
  if (ms < 0.995) return ms.toFixed(2) + 'ms';
  if (ms < 99.95) return ms.toFixed(1) + 'ms';
  return ms < 999.5 ? ms.toFixed(0) + 'ms' : duration(ms / 1000);
}

// --- Ticks ---
function niceTicks(top, wanted) {
  const raw = top / wanted, power = Math.pow(10, Math.floor(Math.log10(raw)));
  let step = power * [1, 2, 5, 10].find(f => f * power >= raw * 0.999);
  if (step < 1) step = 1;
  const ticks = [];
  for (let v = 0; v <= top + step * 1e-6; v += step) ticks.push(v);
  return ticks;
}
function timeTicks(length, wanted) {
  const steps = [1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
                 172800, 432000, 864000, 1728000, 4320000, 8640000, 31536000];
  const step = steps.find(s => length / s <= wanted) || 31536000 * Math.ceil(length / 31536000 / 8);
  const ticks = [];
  for (let t = 0; t <= length; t += step) ticks.push(t);
  return ticks;
}
// The densest set of ticks whose labels do not overlap.
function logTicks(low, high, pixels) {
  const minute = 60, hour = 3600, day = 86400;
  const coarse = [.001, .01, .1, 1, 10, minute, 10 * minute, hour, 10 * hour, day, 10 * day,
                  100 * day, 1000 * day];
  const middle = [...coarse, 3, 30, 3 * minute, 30 * minute, 3 * hour, 3 * day, 30 * day,
                  300 * day];
  const fine = [...middle, 2, 5, 20, 45, 2 * minute, 5 * minute, 20 * minute, 2 * hour, 5 * hour,
                15 * hour, 2 * day, 5 * day, 20 * day];
  for (const set of [fine, middle, coarse]) {
    const inside = set.filter(t => t >= low && t <= high).sort((a, b) => a - b);
    const place = t => pixels * Math.log(t / low) / Math.log(high / low);
    if (inside.every((t, i) => i === 0 || place(t) - place(inside[i - 1]) >= 42)) return inside;
  }
  return [];
}

// --- Drawing ---
// A plot area inside a new svg.
let figures = 0;
function plot(host, {title, description, height, left = 48, right = 12, top = 8, bottom = 34}) {
  const width = Math.max(host.clientWidth, 280), id = 'figure' + ++figures;
  const svg = draw('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img',
                           'aria-labelledby': `${id}t ${id}d`},
                   draw('title', {id: id + 't'}, title), draw('desc', {id: id + 'd'}, description));
  host.append(svg);
  return {svg, width, height, left, right: width - right, top, bottom: height - bottom};
}
const linear = (d0, d1, p0, p1) => v => p0 + (v - d0) / (d1 - d0 || 1) * (p1 - p0);
function label(p, x, y, text, attributes) {
  p.svg.append(draw('text', {x, y, ...attributes}, text));
}
function xTicks(p, ticks, place, format, title) {
  for (const t of ticks) {
    const x = place(t);
    p.svg.append(draw('line', {class: 'gridline', x1: x, x2: x, y1: p.top, y2: p.bottom}));
    label(p, x, p.bottom + 15, format(t), {'text-anchor': 'middle'});
  }
  p.svg.append(draw('line', {class: 'axis', x1: p.left, x2: p.right, y1: p.bottom, y2: p.bottom}));
  label(p, p.right, p.bottom + 30, title, {'text-anchor': 'end'});
}
function yTicks(p, ticks, place, format) {
  for (const v of ticks) {
    const y = place(v);
    p.svg.append(draw('line', {class: 'gridline', x1: p.left, x2: p.right, y1: y, y2: y}));
    label(p, p.left - 7, y + 4, format(v), {'text-anchor': 'end'});
  }
}
// values[i] holds from t[i] to t[i + 1], the last until `end`.
function steps(t, values, end, x, y) {
  let d = '';
  for (let i = 0; i < t.length; ++i) {
    const px = x(t[i]).toFixed(1), py = y(values[i]).toFixed(1);
    d += i ? 'H' + px + 'V' + py : 'M' + px + ',' + py;
  }
  return d + 'H' + x(end).toFixed(1);
}
const area = (t, values, end, x, y) =>
    steps(t, values, end, x, y) + 'V' + y(0).toFixed(1) + 'H' + x(t[0]).toFixed(1) + 'Z';
function band(t, low, high, end, x, y) {
  let d = steps(t, high, end, x, y);
  for (let i = t.length - 1; i >= 0; --i) {
    d += 'V' + y(low[i]).toFixed(1) + 'H' + x(t[i]).toFixed(1);
  }
  return d + 'Z';
}
// Index of the last element that is not above `value`; -1: none.
function floorIndex(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
}

// --- Crosshair: pointer, or arrow keys if the plot has the focus ---
const tip = document.getElementById('tip');
function crosshair(p, toValue, content) {
  const line = draw('line', {class: 'cross', y1: p.top, y2: p.bottom, visibility: 'hidden'});
  p.svg.append(line);
  p.svg.setAttribute('tabindex', 0);
  let at = (p.left + p.right) / 2;
  function hide() {
    line.setAttribute('visibility', 'hidden');
    tip.style.display = 'none';
  }
  function show(x, clientY) {
    at = Math.min(Math.max(x, p.left), p.right);
    line.setAttribute('x1', at);
    line.setAttribute('x2', at);
    line.setAttribute('visibility', 'visible');
    tip.replaceChildren(...content(toValue(at)));
    tip.style.display = 'block';
    const box = p.svg.getBoundingClientRect(), clientX = box.left + at * box.width / p.width;
    const flip = clientX + 18 + tip.offsetWidth > innerWidth;
    tip.style.left = Math.max(4, flip ? clientX - 14 - tip.offsetWidth : clientX + 14) + 'px';
    tip.style.top = Math.max(4, Math.min(clientY + 12, innerHeight - tip.offsetHeight - 8)) + 'px';
  }
  p.svg.addEventListener('pointermove', event => {
    const box = p.svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * p.width / box.width;
    if (x < p.left - 4 || x > p.right + 4) hide(); else show(x, event.clientY);
  });
  p.svg.addEventListener('pointerleave', hide);
  p.svg.addEventListener('blur', hide);
  p.svg.addEventListener('keydown', event => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (event.key === 'Escape') hide();
    if (!step) return;
    event.preventDefault();
    show(at + step * (p.right - p.left) / 100, p.svg.getBoundingClientRect().top + 20);
  });
}
)js";
}

}  // namespace rubato

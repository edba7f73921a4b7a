#include "sim/report_page.h"

namespace rubato {

std::string_view page_script_charts() {
  return R"js(
const name = run => data.policies[run.policy];
const runs = () => data.groups[state.group].runs;
const shown = () => runs().filter(run => !state.hidden.has(run.policy));
const baseline = () => runs()[0];
const jctRatio = run => run.summary.mean_jct_s / baseline().summary.mean_jct_s;
const ifFinished = (run, value) => run.summary.jobs_finished ? value : null;
const field = key => run => run.summary[key];
const finishedField = key => run => ifFinished(run, run.summary[key]);
const peak = values => values.reduce((a, b) => Math.max(a, b), 0);

// --- The summary: group heading, heading, value, format, which end is best ---
const columns = [
  ['', 'Policy', run => run.policy, null, 0],
  ['', 'Jobs', field('jobs_finished'), (n, run) => n === run.summary.jobs ? count(n)
      : count(n) + ' of ' + count(run.summary.jobs), 0],
  ['Job completion time', 'mean', finishedField('mean_jct_s'), duration, -1],
  ['Job completion time', 'ratio', run => ifFinished(run, jctRatio(run)), times, 0],
  ['Job completion time', 'p50', finishedField('p50_jct_s'), duration, -1],
  ['Job completion time', 'p90', finishedField('p90_jct_s'), duration, -1],
  ['Job completion time', 'p99', finishedField('p99_jct_s'), duration, -1],
  ['Queueing', 'mean', field('mean_queue_s'), duration, -1],
  ['Queueing', 'p99', field('p99_queue_s'), duration, -1],
  ['', 'Makespan', finishedField('makespan_s'), duration, -1],
  ['Devices', 'allocated', field('allocated_ratio'), percent, 0],
  ['Devices', 'useful', field('useful_ratio'), percent, 0],
  ['Resizing', 'count', field('resizes'), count, 0],
  ['Resizing', 'dev-h lost', run => run.summary.resize_lost_device_s / 3600, short, 0],
  ['Fairness ρ', 'mean', finishedField('mean_fairness'), ratio, -1],
  ['Fairness ρ', 'worst', finishedField('worst_fairness'), ratio, -1],
  ['', 'Decision', field('decision_ms_mean'), milliseconds, 0],
];

function sortButton(heading, index) {
  const button = el('button', {type: 'button', title: 'Sort by this column'}, heading);
  button.addEventListener('click', () => {
    const again = state.sort.column === index;
    state.sort = {column: index, direction: again ? -state.sort.direction : 1};
    render();
    document.querySelectorAll('#summary thead tr:last-child button')[index].focus();
  });
  return button;
}

function summaryTable() {
  const groups = el('tr', {class: 'groups'}), heads = el('tr', {});
  columns.forEach(([group, heading], index) => {
    if (index && group && columns[index - 1][0] === group) {
      groups.lastChild.colSpan += 1;
    } else {
      groups.append(el(group ? 'th' : 'td', {scope: group ? 'colgroup' : null}, group));
    }
    const sorted = state.sort.column !== index ? null
        : state.sort.direction > 0 ? 'ascending' : 'descending';
    heads.append(el('th', {scope: 'col', 'aria-sort': sorted}, sortButton(heading, index)));
  });
  const rows = [...runs()];
  if (state.sort.column >= 0) {
    const value = columns[state.sort.column][2];
    const key = run => value(run) ?? Infinity;
    rows.sort((a, b) => state.sort.direction * (key(a) - key(b) || 0));
  }
  const body = el('tbody', {});
  for (const run of rows) {
    const row = el('tr', {class: state.hidden.has(run.policy) ? 'off' : null});
    for (const [, , value, format, better] of columns) {
      if (!format) {
        row.append(el('td', {title: name(run)}, swatch(run.policy), name(run)));
        continue;
      }
      const all = runs().map(value).filter(v => v != null);
      const least = Math.min(...all);
      const best = better && value(run) === least && all.some(v => v > least);
      row.append(el('td', {class: best ? 'best' : null}, format(value(run), run)));
    }
    body.append(row);
  }
  return el('table', {id: 'summary'}, el('thead', {}, groups, heads), body);
}

function headline() {
  const group = data.groups[state.group];
  const best = group.best == null ? null : group.runs[group.best];
  if (!best) return 'No job finished.';
  const mean = duration(best.summary.mean_jct_s);
  let text = group.runs.length === 1 ? 'Mean job completion time: ' + mean
      : `Lowest mean job completion time: ${name(best)}, ${mean}`;
  if (best !== baseline() && baseline().summary.jobs_finished) {
    text += ` (${times(jctRatio(best))} of ${name(baseline())})`;
  }
  text += '.';
  for (const {summary, policy} of group.runs) {
    const left = summary.jobs - summary.jobs_finished;
    if (!left) continue;
    const dropped = summary.jobs_dropped ? ` (${count(summary.jobs_dropped)} turned away)` : '';
    text += ` ${data.policies[policy]} left ${count(left)} of ${count(summary.jobs)} jobs ` +
        `unfinished${dropped}; its completion times count finished jobs only.`;
  }
  return text;
}

// --- Small pieces of the page ---
function card(title, note, ...children) {
  const node = el('section', {class: 'card'}, el('h2', {}, title), ...children);
  if (note) node.querySelector('h2').after(el('p', {class: 'note'}, note));
  document.getElementById('content').append(node);
  return node;
}
function plainTable(heads, rows) {
  const head = el('tr', {}, ...heads.map(h => el('th', {scope: 'col'}, h)));
  const body = rows.map(row => el('tr', {}, ...row.map(c => el('td', {}, c))));
  return el('table', {}, el('thead', {}, head), el('tbody', {}, ...body));
}
function asTable(node, heads, rows) {
  node.append(el('details', {}, el('summary', {}, 'Show as a table'),
                 el('div', {class: 'scroll'}, plainTable(heads, rows))));
}
function tipTable(heading, heads, rows) {
  const table = plainTable(heads, rows.map(row => row.slice(1)));
  rows.forEach((row, i) => table.tBodies[0].rows[i].cells[0].prepend(swatch(row[0])));
  return [el('strong', {}, heading), rows.length ? table : ''];
}

// --- Figures ---
function overview() {
  if (data.groups.length < 2) return;
  const body = data.groups.map((group, index) => {
    const open = el('button', {type: 'button'}, group.title);
    open.addEventListener('click', () => choose(index));
    const first = group.runs[0].summary;
    const cells = data.policies.map((_, policy) => {
      const at = group.runs.findIndex(run => run.policy === policy);
      if (at < 0 || !group.runs[at].summary.jobs_finished) return el('td', {}, '–');
      const mean = group.runs[at].summary.mean_jct_s;
      const best = group.runs.length > 1 && at === group.best;
      return el('td', {class: best ? 'best' : null}, duration(mean),
                el('small', {}, times(first.jobs_finished ? mean / first.mean_jct_s : null)));
    });
    return el('tr', {}, el('td', {title: group.title}, open), ...cells);
  });
  const heads = ['Workload', ...data.policies].map(h => el('th', {scope: 'col'}, h));
  card('All workloads', 'Mean job completion time, and its ratio to the first policy. ' +
       'Choose a workload to see its runs below.',
       el('div', {class: 'scroll'}, el('table', {}, el('thead', {}, el('tr', {}, ...heads)),
                                       el('tbody', {}, ...body))));
}

function bars(host, title, value) {
  const box = host.appendChild(el('div', {}, el('h3', {}, title)));
  const list = shown(), row = 24;
  const longest = list.reduce((most, run) => Math.max(most, name(run).length), 0);
  const left = Math.min(16 + longest * 7, 130), height = list.length * row + 6;
  const p = plot(box, {title, description: title + ' of each policy as bars', height, left,
                       right: 58, top: 4, bottom: 2});
  const x = linear(0, peak(list.map(run => value(run) ?? 0)), p.left, p.right);
  list.forEach((run, i) => {
    const y = p.top + i * row, v = value(run);
    const text = name(run).length > 17 ? name(run).slice(0, 16) + '…' : name(run);
    label(p, p.left - 8, y + 15, text, {'text-anchor': 'end', class: 'value'});
    p.svg.append(draw('rect', {x: p.left, y: y + 3, height: row - 7, rx: 2,
                               width: Math.max(x(v ?? 0) - p.left, v ? 1 : 0),
                               style: 'fill:' + colour(run.policy)}));
    label(p, x(v ?? 0) + 6, y + 15, duration(v), {class: 'value'});
  });
  p.svg.append(draw('line', {class: 'axis', x1: p.left, x2: p.left, y1: p.top, y2: p.bottom}));
}

function timeRange() {
  const lines = runs().map(run => run.timeline).filter(t => t && t.t.length);
  if (!lines.length) return null;
  const start = Math.min(...lines.map(t => t.t[0])), end = Math.max(...lines.map(t => t.end));
  return end > start ? {start, end} : null;
}
// Timelines of the shown runs at one time: [run, index] of those that have one.
const statesAt = time => shown().filter(run => run.timeline && time <= run.timeline.end)
    .map(run => [run, floorIndex(run.timeline.t, time)]).filter(([, i]) => i >= 0);
function averagedNote() {
  const widest = peak(shown().map(run => run.timeline && run.timeline.averaged_over_s || 0));
  return !widest ? '' : ` Each step is an average over ${duration(widest)}; ` +
      'the light band spans the lowest to the highest value within it.';
}
// "54.2 (50 to 60)" if the step is an average.
function ranged(timeline, key, i) {
  const value = short(timeline[key][i]);
  if (!timeline[key + '_low']) return value;
  return `${value} (${count(timeline[key + '_low'][i])} to ${count(timeline[key + '_high'][i])})`;
}

function devicesFigure() {
  const range = timeRange();
  if (!range) return void card('Devices in use over time', 'These runs have no timeline.');
  const node = card('Devices in use over time', 'Allocated devices are held by jobs; useful ones ' +
      'compute (they neither resize nor synchronise).' + averagedNote());
  const key = (picture, text) => el('span', {}, draw('svg', {viewBox: '0 0 26 12',
      'aria-hidden': true}, ...picture), text);
  const style = 'fill:var(--c0);stroke:none;';
  node.append(el('div', {class: 'key'},
    key([draw('path', {d: 'M0,3H26V12H0Z', style: style + 'opacity:.2'}),
         draw('path', {d: 'M0,3H26', style: 'stroke:var(--c0);stroke-width:1.6'})], 'allocated'),
    key([draw('path', {d: 'M0,3H26V12H0Z', style: style + 'opacity:.65'})], 'useful'),
    key([draw('path', {d: 'M0,5H26', class: 'capacity'})], 'usable (neither down nor serving)')));
  const list = shown().filter(run => run.timeline), row = 84, gap = 26;
  const host = node.appendChild(el('figure', {}));
  const p = plot(host, {title: 'Devices in use over time', height: list.length * (row + gap) + 44,
      description: 'One row per policy: allocated and useful devices under the usable capacity'});
  const x = linear(range.start, range.end, p.left, p.right);
  const most = peak(runs().filter(run => run.timeline).map(({timeline}) =>
      Math.max(peak(timeline.usable), peak(timeline.allocated)))) || 1;
  xTicks(p, timeTicks(range.end - range.start, (p.right - p.left) / 75),
         t => x(t + range.start), tick, 'time since the start of the run');
  list.forEach((run, i) => {
    const top = p.top + i * (row + gap) + gap - 4, y = linear(0, most, top + row, top);
    const {t, end, ...curve} = run.timeline, tint = colour(run.policy);
    yTicks(p, [0, most / 2, most], y, short);
    label(p, p.left, top - 8, name(run), {class: 'strong'});
    label(p, p.right, top - 8, `allocated ${percent(run.summary.allocated_ratio)}, useful ` +
          percent(run.summary.useful_ratio), {'text-anchor': 'end'});
    const path = (d, css) => p.svg.append(draw('path', {d, style: css}));
    if (curve.allocated_low) {
      path(band(t, curve.allocated_low, curve.allocated_high, end, x, y),
           `fill:${tint};opacity:.2`);
    }
    path(area(t, curve.allocated, end, x, y), `fill:${tint};opacity:.2`);
    path(area(t, curve.useful, end, x, y), `fill:${tint};opacity:.55`);
    path(steps(t, curve.allocated, end, x, y), `fill:none;stroke:${tint};stroke-width:1.3`);
    p.svg.append(draw('path', {class: 'capacity', d: steps(t, curve.usable, end, x, y)}));
  });
  crosshair(p, px => range.start + (px - p.left) / (p.right - p.left) * (range.end - range.start),
    time => tipTable(duration(time - range.start), ['', 'allocated', 'useful', 'usable'],
      statesAt(time).map(([run, i]) => [run.policy, name(run), ranged(run.timeline, 'allocated', i),
                                        short(run.timeline.useful[i]),
                                        short(run.timeline.usable[i])])));
  asTable(node, ['Policy', 'allocated', 'useful', 'most allocated'], list.map(run =>
      [name(run), percent(run.summary.allocated_ratio), percent(run.summary.useful_ratio),
       count(peak(run.timeline.allocated_high || run.timeline.allocated))]));
}
)js"
         R"js(
function queueFigure() {
  const range = timeRange();
  if (!range) return;
  const node = card('Waiting jobs over time',
                    'Submitted jobs that hold no device.' + averagedNote());
  const p = plot(node.appendChild(el('figure', {})), {title: 'Waiting jobs over time', height: 260,
      description: 'Number of jobs without devices, one line per policy'});
  const list = shown().filter(run => run.timeline);
  const most = peak(list.map(({timeline}) => peak(timeline.waiting_high || timeline.waiting))) || 1;
  const x = linear(range.start, range.end, p.left, p.right), y = linear(0, most, p.bottom, p.top);
  xTicks(p, timeTicks(range.end - range.start, (p.right - p.left) / 75),
         t => x(t + range.start), tick, 'time since the start of the run');
  yTicks(p, niceTicks(most, 5), y, short);
  for (const {policy, timeline} of list) {
    if (!timeline.waiting_low) continue;
    p.svg.append(draw('path', {style: `fill:${colour(policy)};opacity:.16`,
        d: band(timeline.t, timeline.waiting_low, timeline.waiting_high, timeline.end, x, y)}));
  }
  for (const {policy, timeline} of list) {
    p.svg.append(draw('path', {d: steps(timeline.t, timeline.waiting, timeline.end, x, y),
        'stroke-dasharray': dash(policy),
        style: `fill:none;stroke:${colour(policy)};stroke-width:1.5`}));
  }
  crosshair(p, px => range.start + (px - p.left) / (p.right - p.left) * (range.end - range.start),
    time => tipTable(duration(time - range.start), ['', 'waiting', 'running'],
      statesAt(time).map(([run, i]) => [run.policy, name(run), ranged(run.timeline, 'waiting', i),
                                        short(run.timeline.running[i])])));
  asTable(node, ['Policy', 'most waiting', 'mean queueing', 'p99 queueing'], list.map(run =>
      [name(run), count(peak(run.timeline.waiting_high || run.timeline.waiting)),
       duration(run.summary.mean_queue_s), duration(run.summary.p99_queue_s)]));
}

function cdfFigure() {
  const title = 'Distribution of job completion times', list = shown().filter(r => r.cdf.x.length);
  if (!list.length) return void card(title, 'No job finished.');
  const node = card(title, 'Share of all submitted jobs completed within a time ' +
                    '(logarithmic scale).');
  const p = plot(node.appendChild(el('figure', {})), {title, height: 300,
      description: 'Cumulative share of jobs against completion time, one line per policy'});
  let low = Math.max(Math.min(...list.map(run => run.cdf.x[0])), 1e-3);
  let high = Math.max(...list.map(run => run.cdf.x[run.cdf.x.length - 1]), low);
  if (high < low * 4) [low, high] = [low / 2, high * 2];
  const log = linear(Math.log(low), Math.log(high), p.left, p.right);
  const x = s => log(Math.log(Math.max(s, low))), y = linear(0, 1, p.bottom, p.top);
  xTicks(p, logTicks(low, high, p.right - p.left), x, tick, 'job completion time');
  yTicks(p, [0, .25, .5, .75, 1], y, v => 100 * v + '%');
  for (const {policy, cdf} of list) {
    let d = `M${x(cdf.x[0]).toFixed(1)},${y(0)}`;
    cdf.x.forEach((s, i) => { d += 'H' + x(s).toFixed(1) + 'V' + y(cdf.y[i]).toFixed(1); });
    p.svg.append(draw('path', {d: d + 'H' + p.right, 'stroke-dasharray': dash(policy),
        style: `fill:none;stroke:${colour(policy)};stroke-width:1.8;stroke-linejoin:round`}));
  }
  const shareAt = (cdf, s) => { const i = floorIndex(cdf.x, s); return i < 0 ? 0 : cdf.y[i]; };
  crosshair(p, px => low * Math.pow(high / low, (px - p.left) / (p.right - p.left)),
    s => tipTable('within ' + duration(s), ['', 'completed'],
      list.map(run => [run.policy, name(run), percent(shareAt(run.cdf, s))])));
  const shares = [.1, .25, .5, .75, .9, .95, .99];
  asTable(node, ['Policy', ...shares.map(s => 100 * s + '% within')], list.map(run =>
      [name(run), ...shares.map(s => duration(run.cdf.x[run.cdf.y.findIndex(v => v >= s)]))]));
}

// --- The page ---
function choose(group) {
  state.group = group;
  state.sort = {column: -1, direction: 1};
  render();
}
function controls() {
  const nodes = [];
  if (data.groups.length > 1) {
    const select = el('select', {}, ...data.groups.map((group, i) =>
        el('option', {value: i}, group.title)));
    select.value = state.group;
    select.addEventListener('change', () => choose(Number(select.value)));
    nodes.push(el('label', {}, 'Workload ', select));
  }
  const toggles = runs().map(({policy}) => {
    const button = el('button', {type: 'button', 'aria-pressed': !state.hidden.has(policy),
        title: 'Show or hide this policy'}, swatch(policy), el('span', {}, data.policies[policy]));
    button.addEventListener('click', () => {
      if (!state.hidden.delete(policy)) state.hidden.add(policy);
      const at = [...button.parentNode.children].indexOf(button);
      render();
      document.querySelectorAll('.legend button')[at].focus();
    });
    return button;
  });
  nodes.push(el('div', {class: 'legend', role: 'group', 'aria-label': 'Policies shown'},
                ...toggles));
  document.getElementById('controls').replaceChildren(...nodes);
}
function render() {
  const content = document.getElementById('content'), scroll = scrollY;
  content.style.minHeight = content.offsetHeight + 'px';  // keeps the scroll position meanwhile
  content.replaceChildren();
  tip.style.display = 'none';
  figures = 0;
  if (!data.groups.length) return void card('No runs', 'The report contains no simulation runs.');
  controls();
  overview();
  const title = data.groups[state.group].title;
  card(title ? 'Summary of ' + title : 'Summary', headline(),
       el('div', {class: 'scroll'}, summaryTable()));
  const bar = card('Completion and queueing times', null).appendChild(el('div', {class: 'bars'}));
  bars(bar, 'Mean completion time', finishedField('mean_jct_s'));
  bars(bar, 'p99 completion time', finishedField('p99_jct_s'));
  bars(bar, 'Mean queueing time', field('mean_queue_s'));
  devicesFigure();
  queueFigure();
  cdfFigure();
  content.style.minHeight = '';
  scrollTo(0, scroll);
}
function context() {
  const rows = [['Command', data.command && el('code', {}, data.command)],
                ['Cluster', data.cluster],
                ['Round', data.round === 'event' ? 'at every event' :
                 data.round && 'every ' + data.round.replace(/^\d+(\.\d+)?$/, '$& s')],
                ['Resize cost', data.resize_cost_s + ' s']];
  for (const [term, value] of rows) {
    if (value) document.getElementById('context').append(el('dt', {}, term), el('dd', {}, value));
  }
}
context();
render();
let width = innerWidth, timer = 0;
addEventListener('resize', () => {
  clearTimeout(timer);
  timer = setTimeout(() => { if (innerWidth !== width) { width = innerWidth; render(); } }, 150);
});
)js";
}

}  // namespace rubato

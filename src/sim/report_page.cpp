#include "sim/report_page.h"

namespace rubato {

std::string_view page_before_data() {
  // Colours: Okabe and Ito's palette, adjusted for contrast on each background. Print always uses
  // the light colours.
  return R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Rubato simulation report</title>
<style>
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1c2430; --soft: #5b6675; --line: #d9dee5;
  --grid: #e8ebef; --accent: #0062a3; --mark: #eef5fb;
  --c0: #0072b2; --c1: #d55e00; --c2: #00875f; --c3: #b8558d;
  --c4: #b97f00; --c5: #3a9bd6; --c6: #6a51a3; --c7: #6b6b6b;
  --c8: #9c2f2f; --c9: #4d7c0f; --c10: #0f766e; --c11: #a21caf;
  --c12: #7c4a1e; --c13: #1e3a8a; --c14: #be185d; --c15: #525c00;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #11151b; --card: #1a2028; --text: #e4e8ee; --soft: #9aa5b4; --line: #333c48;
    --grid: #29313b; --accent: #6bb8ee; --mark: #1f2b38;
    --c0: #4fa8e0; --c1: #f0803c; --c2: #2cc196; --c3: #e08fbd;
    --c4: #e6b034; --c5: #9bd0f2; --c6: #a996e0; --c7: #a9b0b8;
    --c8: #ef7d7d; --c9: #a3d65c; --c10: #5fd4c8; --c11: #e38af0;
    --c12: #cf9a6b; --c13: #8ea6f7; --c14: #f77fb0; --c15: #c9d34a;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text);
       font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 20px 24px 48px; }
h1 { font-size: 22px; margin: 0 0 10px; letter-spacing: -.01em; }
h2 { font-size: 16px; margin: 0 0 2px; }
code { font: 12.5px/1.5 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace;
       overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 0 0 16px; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
p { margin: 0; }
.note { color: var(--soft); font-size: 13px; }
.controls { position: sticky; top: 0; z-index: 2; display: flex; flex-wrap: wrap; gap: 8px 18px;
            align-items: center; background: var(--page); padding: 8px 0; margin-bottom: 8px;
            border-bottom: 1px solid var(--line); }
.legend { display: flex; flex-wrap: wrap; gap: 6px; }
.legend button { display: inline-flex; align-items: center; gap: 7px; font: inherit;
                 cursor: pointer; color: var(--text); background: var(--card);
                 border: 1px solid var(--line); border-radius: 14px;
                 padding: 2px 11px 2px 9px; max-width: 260px; }
.legend button[aria-pressed=false] { color: var(--soft); text-decoration: line-through;
                                     background: none; }
.legend button[aria-pressed=false] .swatch { opacity: .25; }
.legend span:last-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.swatch { flex: none; width: 11px; height: 11px; border-radius: 3px; display: inline-block; }
select { font: inherit; color: var(--text); background: var(--card); max-width: 420px;
         border: 1px solid var(--line); border-radius: 6px; padding: 3px 6px; }
button:focus-visible, select:focus-visible, svg:focus-visible, summary:focus-visible {
  outline: 2px solid var(--accent); outline-offset: 2px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
        padding: 14px 16px; margin: 0 0 16px; min-width: 0; }
.bars { display: grid; grid-template-columns: repeat(3, 1fr); gap: 0 28px; }
@media screen and (max-width: 860px) { .bars { grid-template-columns: 1fr; gap: 14px; } }
h3 { font-size: 13px; font-weight: 600; margin: 8px 0 2px; }
figure { margin: 0; }
figcaption { margin-bottom: 6px; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 11.5px; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg text.strong { fill: var(--text); font-weight: 600; }
svg text.value { fill: var(--text); }
.gridline { stroke: var(--grid); stroke-width: 1; shape-rendering: crispEdges; }
.axis { stroke: var(--line); stroke-width: 1; shape-rendering: crispEdges; }
.capacity { stroke: var(--soft); stroke-width: 1.2; stroke-dasharray: 5 4; fill: none; }
.cross { stroke: var(--text); stroke-width: 1; opacity: .55; pointer-events: none; }
.key { display: flex; flex-wrap: wrap; gap: 2px 18px; color: var(--soft); font-size: 12.5px;
       margin: 4px 0 0; }
.key svg { display: inline-block; width: 26px; height: 12px; margin-right: 6px;
           vertical-align: -1px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 12.5px;
        font-variant-numeric: tabular-nums; margin-top: 8px; }
th, td { padding: 4px 6px; text-align: right; white-space: nowrap;
         border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 500; }
th:first-child, td:first-child { text-align: left; }
td:first-child { max-width: 220px; overflow: hidden; text-overflow: ellipsis; }
thead tr.groups th { text-align: center; border-bottom: 1px solid var(--line); font-size: 11.5px;
                     padding-bottom: 1px; }
thead tr.groups td { border-bottom: none; }
@media screen and (max-width: 1120px) {
  #summary { font-size: 11px; }
  #summary th, #summary td { padding: 4px 2px; }
}
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0;
            cursor: pointer; }
th button:hover { color: var(--accent); }
th[aria-sort=ascending] button::after { content: " \25B4"; }
th[aria-sort=descending] button::after { content: " \25BE"; }
td.best { font-weight: 700; color: var(--text); background: var(--mark); }
tr.off td { opacity: .4; }
td .swatch { margin-right: 7px; vertical-align: -1px; }
td button { font: inherit; color: var(--accent); background: none; border: 0; padding: 0;
            cursor: pointer; text-align: left; }
td small { color: var(--soft); margin-left: 6px; font-weight: 400; }
details { margin-top: 8px; font-size: 12.5px; }
summary { cursor: pointer; color: var(--soft); width: max-content; }
#tip { position: fixed; z-index: 3; pointer-events: none; display: none; max-width: 460px;
       background: var(--card); color: var(--text); border: 1px solid var(--line);
       border-radius: 6px; padding: 7px 10px; font-size: 12.5px;
       box-shadow: 0 4px 16px rgb(0 0 0 / .18); }
#tip table { margin: 3px 0 0; font-size: 12px; }
#tip td { border: 0; padding: 1px 5px; }
#tip th { border: 0; padding: 0 5px; }
@media print {
  body { background: #fff; font-size: 11px; }
  main { max-width: none; padding: 0; }
  table { font-size: 8.5px; }
  th, td { padding: 2px 3px; }
  .controls select, details, #tip { display: none; }
  .controls { position: static; background: none; }
  .swatch, td.best { print-color-adjust: exact; }
  .card { border: 0; padding: 6px 0; break-inside: avoid; }
}
</style>
</head>
<body>
<main>
<h1>Rubato simulation report</h1>
<dl id="context"></dl>
<noscript><p class="card">The tables and plots of this page need JavaScript. The same numbers are in
summary.json, jobs.csv and timeline.csv.</p></noscript>
<div class="controls" id="controls"></div>
<div id="content"></div>
</main>
<div id="tip" role="status"></div>
<script type="application/json" id="data">)html";
}

std::string_view page_after_data() {
  return R"html(</script>
<script>
)html";
}

std::string_view page_end() {
  return R"html(</script>
</body>
</html>
)html";
}

}  // namespace rubato

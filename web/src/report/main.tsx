// report.html: recorded simulations with the dashboard's components. Everything is in the page.
import { render } from 'preact';
import { Card } from '../parts';
import { setValues, useRoute } from '../route';
import '../style.css';
import './report.css';
import { groupsOf, type Group, type ReportData, type Run } from './data';
import { DevicesPage } from './devices';
import { CdfCard, DevicesCard, QueueCard, WaitsCard } from './figures';
import { JobPage, JobsPage } from './jobs';
import { PolicyName, address } from './parts';
import { BarsCard, SummaryCard, WorkloadsCard } from './summary';

const pages: [string, string][] = [['', 'Comparison'], ['jobs', 'Jobs'], ['devices', 'Devices']];

function Origin({ data }: { data: ReportData }) {
  return (
    <Card title="Where this comes from">
      {data.documents.map((document, i) => (
        <dl class="origin" key={i}>
          {data.documents.length > 1 ? <><dt>Folder</dt><dd>{data.index.folders[i]}</dd></> : null}
          <dt>Command</dt><dd><code class="command">{document.command}</code></dd>
          <dt>Cluster</dt><dd>{document.cluster}</dd>
          <dt>Round</dt><dd>{document.round === 'event' ? 'at every event' : `every ${document.round} s`}</dd>
          <dt>Resize cost</dt><dd>{document.resize_cost_s} s</dd>
        </dl>
      ))}
    </Card>
  );
}

function Controls({ groups, chosen, group, hidden }: { groups: Group[]; chosen: number; group: Group; hidden: Set<number> }) {
  const toggle = (policy: number) => {
    const next = new Set(hidden);
    if (!next.delete(policy)) next.add(policy);
    setValues({ hide: [...next].join(',') });
  };
  return (
    <div class="controls">
      {groups.length > 1 ? (
        <label class="inline">Workload <select value={String(chosen)} onChange={(event) => setValues({ group: event.currentTarget.value, sort: '' })}>
          {groups.map(({ title }, i) => <option key={i} value={String(i)}>{title}</option>)}
        </select></label>
      ) : null}
      <div class="legend" role="group" aria-label="Policies shown">
        {group.runs.map((run) => (
          <button key={run.policy} type="button" title="Show or hide this policy" aria-pressed={!hidden.has(run.policy)}
            onClick={() => toggle(run.policy)}><PolicyName run={run} /></button>
        ))}
      </div>
    </div>
  );
}

function Comparison({ data, groups, group, shown, values }:
{ data: ReportData; groups: Group[]; group: Group; shown: Run[]; values: Record<string, string> }) {
  return (
    <div class="page">
      <h1 class="hidden">Comparison</h1>
      <WorkloadsCard groups={groups} policies={data.index.policies} />
      <SummaryCard group={group} shown={shown} sort={values.sort ?? ''} />
      <BarsCard shown={shown} />
      <DevicesCard group={group} shown={shown} />
      <QueueCard group={group} shown={shown} />
      <WaitsCard group={group} shown={shown} chosen={values.wait ?? ''} />
      <CdfCard shown={shown} />
      <Origin data={data} />
    </div>
  );
}

function Report({ data }: { data: ReportData }) {
  const groups = groupsOf(data);
  const { parts, values } = useRoute();
  const chosen = Number(values.group) || 0;
  const group = groups[chosen] ?? groups[0];
  const hidden = new Set((values.hide ?? '').split(',').filter(Boolean).map(Number));
  if (!group) return <main><p>The report contains no simulation runs.</p></main>;
  const shown = group.runs.filter(({ policy }) => !hidden.has(policy));
  const page = parts[0] ?? '';
  const name = parts[1];
  return (
    <>
      <header class="top">
        <span class="brand">Rubato</span>
        <nav aria-label="Pages">
          {pages.map(([path, label]) => <a key={path} href={address(path, values)} aria-current={page === path ? 'page' : undefined}>{label}</a>)}
        </nav>
        <Controls groups={groups} chosen={chosen} group={group} hidden={hidden} />
      </header>
      <main id="main" class="report" tabIndex={-1}>
        {shown.length === 0 ? <div class="page"><p class="hint">All policies are hidden. Choose one above.</p></div>
          : page === 'jobs' && name !== undefined ? <JobPage group={group} shown={shown} name={name} values={values} />
            : page === 'jobs' ? <JobsPage group={group} shown={shown} values={values} />
              : page === 'devices' ? <DevicesPage group={group} shown={shown} values={values} />
                : <Comparison data={data} groups={groups} group={group} shown={shown} values={values} />}
      </main>
    </>
  );
}

const text = document.getElementById('data')?.textContent;
const root = document.getElementById('app');
if (root && text) render(<Report data={JSON.parse(text) as ReportData} />, root);

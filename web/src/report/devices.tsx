// Who held which devices at a moment, under each policy, with one slider for all.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { colour, count, floorIndex } from '../format';
import { useSoon } from '../hooks';
import { DeviceMap, useDark, type Cell, type MapNode } from '../map';
import { Card } from '../parts';
import { setValues } from '../route';
import { heldAt, nodesDownAt, type Group, type Holding, type Run } from './data';
import { Scroll, address, short, whole } from './parts';
import { duration } from './ticks';

type Values = Record<string, string>;

function mapOf(run: Run, start: number, held: Holding[], time: number, dark: boolean, values: Values): MapNode[] {
  const down = run.devices ? nodesDownAt(run.devices, time) : new Set<number>();
  const nodes: MapNode[] = run.document.nodes.map(([type], i) =>
    ({ name: `node ${i}`, type: down.has(i) ? `${type}, down` : type, cells: [] as (Cell | null)[], down: down.has(i) }));
  for (const { job, nodes: places, since, devices } of held) {
    const name = run.jobs.name[job] ?? '';
    const cell: Cell = {
      colour: colour(job, dark), href: address(`jobs/${encodeURIComponent(name)}`, values),
      words: `${name}: ${count(devices, 'device')}, since ${duration(since - start)}, for ${duration(time - since)}`,
    };
    for (let i = 0; i < places.length; i += 2) {
      for (let n = 0; n < (places[i + 1] ?? 0); ++n) nodes[places[i] ?? 0]?.cells.push(cell);
    }
  }
  nodes.forEach((node, i) => { while (node.cells.length < (run.document.nodes[i]?.[1] ?? 0)) node.cells.push(null); });
  return nodes;
}

function Owners({ run, held, time, values }: { run: Run; held: Holding[]; time: number; values: Values }) {
  const dark = useDark();
  if (held.length === 0) return null;
  return (
    <details>
      <summary>{count(held.length, 'job')} on the devices</summary>
      <Scroll label={`Jobs on the devices under ${run.name}`}>
        <table>
          <thead><tr><th>Job</th><th class="n">Devices</th><th>Nodes</th><th class="n">For</th></tr></thead>
          <tbody>
            {held.map(({ job, nodes, since, devices }) => (
              <tr key={job}>
                <td><span class="swatch" style={{ background: colour(job, dark) }} />
                  <a href={address(`jobs/${encodeURIComponent(run.jobs.name[job] ?? '')}`, values)}>{run.jobs.name[job]}</a></td>
                <td class="n">{devices}</td>
                <td>{nodes.flatMap((node, i) => i % 2 ? [] : [`${node} (${nodes[i + 1] ?? 0})`]).join(', ')}</td>
                <td class="n">{duration(time - since)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}

function DevicesOf({ run, start, time, values }: { run: Run; start: number; time: number; values: Values }) {
  const dark = useDark();
  const [hovered, setHovered] = useState('');
  const held = useMemo(() => run.devices ? heldAt(run.devices, time) : [], [run, time]);
  const nodes = useMemo(() => mapOf(run, start, held, time, dark, values), [run, held, time, dark]);
  const { timeline } = run;
  const i = timeline && time <= timeline.end ? floorIndex(timeline.t, time) : -1;
  const used = held.reduce((sum, { devices }) => sum + devices, 0);
  const facts = timeline && i >= 0 ? `, ${short(timeline.usable[i] ?? 0)} usable, ${short(timeline.running[i] ?? 0)} jobs run, ${short(timeline.waiting[i] ?? 0)} wait` : '';
  return (
    <Card title={run.name}>
      <p class="held">{whole(used)} of {count(nodes.reduce((sum, node) => sum + node.cells.length, 0), 'device')} held{facts}</p>
      <DeviceMap nodes={nodes} hover={setHovered} />
      <p class="hint hovered">{hovered || 'Each cell is a device, coloured by its job.'}</p>
      <Owners run={run} held={held} time={time} values={values} />
    </Card>
  );
}

export function DevicesPage({ group, shown, values }: { group: Group; shown: Run[]; values: Values }) {
  const runs = shown.filter(({ devices }) => devices);
  const known = Math.min(group.end, ...runs.flatMap(({ devices, timeline }) => devices && devices.until < (timeline?.end ?? 0) ? [devices.until] : []));
  const [chosen, setChosen] = useState(Number(values.at) || 0);
  useEffect(() => setChosen(Number(values.at) || 0), [values.at]);
  const apply = useSoon(() => setValues({ at: chosen === 0 ? '' : String(chosen) }), 60);
  const moments = useMemo(() => [...new Set(runs.flatMap(({ devices }) => (devices?.t ?? []).filter((t) => t <= known)))].sort((a, b) => a - b), [group, runs.length, known]);
  if (runs.length === 0) {
    return <div class="page"><h1>Devices</h1><p class="hint">These runs have no record of who held which devices.</p></div>;
  }
  const time = group.start + chosen;
  const slide = (to: number) => {
    setChosen(Math.max(0, Math.min(to, known - group.start)));
    apply();
  };
  const at = floorIndex(moments, time);
  const before = moments[(moments[at] === time ? at : at + 1) - 1];
  const after = moments[at + 1];
  return (
    <div class="page" data-at={chosen}>
      <h1>Devices</h1>
      <Card title={`At ${duration(chosen)}`} extra={<small>of {duration(group.end - group.start)}</small>}>
        <div class="slider">
          <input type="range" aria-label="Time" min={0} max={known - group.start} step="any" value={chosen}
            aria-valuetext={duration(chosen)} onInput={(event) => slide(Number(event.currentTarget.value))} />
          <button type="button" disabled={before === undefined} onClick={() => slide((before ?? 0) - group.start)}>Change before</button>
          <button type="button" disabled={after === undefined} onClick={() => slide((after ?? 0) - group.start)}>Next change</button>
        </div>
        {known < group.end ? <p class="hint">This page knows the devices of the first {duration(known - group.start)} only; devices.csv has the rest.</p> : null}
      </Card>
      <div class="side-by-side">{runs.map((run) => <DevicesOf key={run.policy} run={run} start={group.start} time={time} values={values} />)}</div>
    </div>
  );
}

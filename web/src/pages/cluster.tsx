import { useEffect, useMemo, useState } from 'preact/hooks';
import { get, query, type Devices, type Held } from '../api';
import { colour, count, duration, time } from '../format';
import { useLoaded, useNow, useSoon } from '../hooks';
import { listen } from '../live';
import { DeviceMap, useDark, type Cell, type MapNode } from '../map';
import { Card, Problem } from '../parts';
import { setValues } from '../route';

const number = (held: Held) => Number((held.job ?? '').replace(/^j/, '')) || 0;

// Devices have no names in the log, so a node's cells are given to its jobs from the left.
function cellsOf(devices: Devices, dark: boolean): MapNode[] {
  const owners = [...devices.held].sort((a, b) => number(a) - number(b)).map((held) => ({
    held,
    cell: {
      words: owner(held, devices.at), colour: held.job ? colour(number(held), dark) : 'var(--other)',
      ...(held.job ? { href: `#/jobs/${held.job}` } : {}),
    },
  }));
  return devices.nodes.map((node) => {
    const cells: (Cell | null)[] = [];
    for (const { held, cell } of owners) {
      for (const place of held.nodes) {
        if (place.node !== node.node) continue;
        for (let i = 0; i < place.devices; ++i) cells.push(cell);
      }
    }
    while (cells.length < node.devices) cells.push(null);
    return { name: node.node, type: node.device_type, cells };
  });
}

function owner(held: Held, at: number): string {
  if (!held.job) return 'a job of another tenant';
  return `${held.name ?? held.job} (${held.job}, ${held.tenant ?? ''}), since ${time(held.since ?? 0)}, for ${duration(at - (held.since ?? at))}`;
}

function Owners({ devices }: { devices: Devices }) {
  const dark = useDark();
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="Jobs on the devices">
      <table>
        <thead><tr><th>Job</th><th>Tenant</th><th class="n">Devices</th><th>Nodes</th><th>Since</th></tr></thead>
        <tbody>
          {devices.held.map((held, i) => (
            <tr key={i}>
              <td><span class="swatch" style={{ background: held.job ? colour(number(held), dark) : 'var(--other)' }} />
                {held.job ? <a href={`#/jobs/${held.job}`}>{held.name}</a> : 'another tenant'}</td>
              <td>{held.tenant ?? '–'}</td>
              <td class="n">{held.nodes.reduce((sum, place) => sum + place.devices, 0)}</td>
              <td>{held.nodes.map((place) => `${place.node} (${place.devices})`).join(', ')}</td>
              <td>{held.since ? `${time(held.since)} (${duration(devices.at - held.since)})` : '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function ClusterPage({ values }: { values: Record<string, string> }) {
  const at = Number(values.at) || 0;
  const hours = Number(values.hours) || 1;
  const now = useNow(10);
  const dark = useDark();
  const [hovered, setHovered] = useState('');
  const [chosen, setChosen] = useState(at);
  const devices = useLoaded(() => get<Devices>(`/api/v1/devices${query({ at: at || undefined })}`), [at]);
  const again = useSoon(() => { if (at === 0) devices.reload(); }, 250);
  const apply = useSoon(() => setValues({ at: chosen === 0 ? '' : String(chosen) }), 60);
  useEffect(() => listen({
    event: (event) => { if (['held', 'nodes', 'started', 'removed'].includes(event.type)) again(); },
  }), [at]);
  useEffect(() => setChosen(at), [at]);

  const cells = useMemo(() => devices.value ? cellsOf(devices.value, dark) : [], [devices.value, dark]);
  const first = Math.floor(now) - hours * 3600;
  const slide = (value: number) => {
    setChosen(value >= Math.floor(now) - 5 ? 0 : value);
    apply();
  };
  const used = cells.reduce((sum, node) => sum + node.cells.filter((cell) => cell).length, 0);
  const all = cells.reduce((sum, node) => sum + node.cells.length, 0);
  return (
    <div class="page" data-loaded={devices.value !== null} data-at={devices.value?.at}>
      <h1>Cluster <small>{all ? `${used} of ${count(all, 'device')} held` : ''}</small></h1>
      <Problem text={devices.error} />
      <Card title={chosen === 0 ? 'Now' : `At ${time(chosen)}`} extra={
        <label class="inline">Back <select value={String(hours)} onChange={(event) => setValues({ hours: event.currentTarget.value, at: '' })}>
          <option value="1">1 hour</option><option value="24">1 day</option><option value="168">7 days</option><option value="720">30 days</option>
        </select></label>}>
        <div class="slider">
          <input type="range" aria-label="Time" min={first} max={Math.floor(now)} step={hours > 24 ? 60 : 1}
            value={chosen === 0 ? Math.floor(now) : chosen} aria-valuetext={chosen === 0 ? 'now' : time(chosen)}
            onInput={(event) => slide(Number(event.currentTarget.value))} />
          <button type="button" onClick={() => { setChosen(0); setValues({ at: '' }); }} disabled={chosen === 0}>Now</button>
        </div>
        <DeviceMap nodes={cells} hover={setHovered} />
        <p class="hint hovered">{hovered || 'Each cell is a device, coloured by its job.'}</p>
        {devices.value && devices.value.held.length > 0 ? <Owners devices={devices.value} /> : null}
      </Card>
    </div>
  );
}

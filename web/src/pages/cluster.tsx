import { useEffect, useMemo, useState } from 'preact/hooks';
import { get, query, type Devices, type Held, type Reservation } from '../api';
import { bytes, colour, count, duration, percent, time } from '../format';
import { useLoaded, useNow, useSoon } from '../hooks';
import { listen } from '../live';
import { DeviceMap, heldIn, useDark, type Cell, type MapNode } from '../map';
import { Card, Problem } from '../parts';
import { setValues } from '../route';

type Use = Devices['use'][number];

const number = (held: Held) => Number((held.job ?? '').replace(/^j/, '')) || 0;

// What the driver tells of the next of this job's devices there; no job: of the next free one.
function takeUse(uses: Use[], node: string, job: string | undefined): string {
  const i = uses.findIndex((use) => use.node === node && use.job === job);
  return i < 0 ? '' : useWords(uses.splice(i, 1)[0]!);
}

function useWords(use: Use): string {
  const parts = [`device ${use.index}`];
  if (use.utilisation !== undefined) parts.push(`computes ${percent(use.utilisation)} of the time`);
  if (use.memory !== undefined && use.memory_used !== undefined) parts.push(`${bytes(use.memory_used)} of ${bytes(use.memory)} in use`);
  return ` · ${parts.join(', ')}`;
}

// Devices have no names in the log, so a node's cells are given to its jobs from the left; those that
// are reserved are the last ones.
function cellsOf(devices: Devices, dark: boolean): MapNode[] {
  const uses = [...devices.use];
  const owners = [...devices.held].sort((a, b) => number(a) - number(b));
  return devices.nodes.map((node) => {
    const cells: Cell[] = [];
    for (const held of owners) {
      for (const place of held.nodes) {
        if (place.node !== node.node) continue;
        const its = held.job ? colour(number(held), dark) : 'var(--other)';
        for (let i = 0; i < place.devices; ++i) {
          const words = owner(held, devices.at) + (held.job ? takeUse(uses, node.node, held.job) : '');
          cells.push({ words, colour: its, ...(held.job ? { href: `#/jobs/${held.job}` } : {}) });
        }
      }
    }
    while (cells.length < node.devices) {
      const reserved = cells.length >= node.devices - node.reserved;
      const words = reserved ? reservedWords(devices.reservations) : 'free';
      cells.push({ words: words + takeUse(uses, node.node, undefined), reserved });
    }
    return { name: node.node, type: node.device_type, cells };
  });
}

function reservedWords(reservations: Reservation[]): string {
  const parts = reservations.map((one) => `${count(one.devices, 'device')} until ${time(one.until)}`);
  return `reserved for something other than training: ${parts.join(', ')}`;
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
          {devices.reservations.map((one) => (
            <tr key={`reserved-${one.number}`}>
              <td><span class="swatch reserved" />reserved until {time(one.until)}</td>
              <td>–</td><td class="n">{one.devices}</td>
              <td>{devices.nodes.filter((node) => node.reserved > 0).map((node) => `${node.node} (${node.reserved})`).join(', ')}</td>
              <td>{time(one.from)} ({duration(devices.at - one.from)})</td>
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
  const lookAgain = useSoon(() => { if (at === 0 && (devices.value?.use.length ?? 0) > 0) devices.reload(); }, 5000);
  useEffect(() => listen({
    sample: lookAgain,
    event: (event) => { if (['held', 'nodes', 'started', 'removed', 'reserved', 'released'].includes(event.type)) again(); },
  }), [at]);
  useEffect(() => setChosen(at), [at]);

  const cells = useMemo(() => devices.value ? cellsOf(devices.value, dark) : [], [devices.value, dark]);
  const first = Math.floor(now) - hours * 3600;
  const slide = (value: number) => {
    setChosen(value >= Math.floor(now) - 5 ? 0 : value);
    apply();
  };
  const used = cells.reduce((sum, node) => sum + heldIn(node), 0);
  const all = cells.reduce((sum, node) => sum + node.cells.length, 0);
  const reservations = devices.value?.reservations ?? [];
  const reserved = devices.value?.nodes.reduce((sum, node) => sum + node.reserved, 0) ?? 0;
  return (
    <div class="page" data-loaded={devices.value !== null} data-at={devices.value?.at}>
      <h1>Cluster <small>{all ? `${used} of ${count(all, 'device')} held${reserved ? `, ${reserved} reserved` : ''}` : ''}</small></h1>
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
        <p class="hint legend">
          <span><span class="swatch free" />free</span>
          <span><span class="swatch reserved" />reserved for something other than training</span>
          <span><span class="swatch strange" />a job of another tenant</span>
        </p>
        {devices.value && devices.value.held.length + reservations.length > 0 ? <Owners devices={devices.value} /> : null}
      </Card>
    </div>
  );
}

// Events in words. Everything here is text: it reaches the page as text nodes only.
import { jobOf, type RubatoEvent } from './api';
import { count, duration, number } from './format';

const reasons: Record<string, string> = {
  started: 'it got devices',
  grown: 'it got more devices',
  shrunk: 'it gave devices to other jobs',
  fewer: 'the policy took devices from it and leaves them idle for now',
  moved: 'it moved to other nodes',
  pinned: 'its owner pinned its number of devices',
  'slower-on-more': 'it was measured to be slower on more devices',
  'logical-workers': 'it cannot use more devices than it has logical workers',
  'range-changed': 'its range of devices was changed',
  'cut-to-size': 'it may only use certain numbers of devices',
  'waits-for-devices': 'not enough devices are free for its smallest size',
  'too-few-usable': 'its smallest size needs more devices than are usable now',
  'waits-behind': 'a job ahead of it waits for the free devices',
  'held-back': 'the policy leaves the free devices idle for now',
  preempted: 'other jobs got its devices',
  'node-down': 'its node was lost',
  reclaimed: 'its devices were reserved for something else',
  'not-worthwhile': 'the policy prefers the jobs that hold the devices',
  rejected: 'there was no room for its smallest size',
  'tenant-share': 'its tenant uses its share of the devices',
  'tenant-quota': 'its tenant may not hold more devices',
  undecided: 'the scheduler has not decided yet',
};
export function reasonWords(code: string): string { return reasons[code] ?? code; }

const text = (value: unknown): string => typeof value === 'string' ? value : '';
const num = (value: unknown): number => typeof value === 'number' ? value : 0;

function granted(body: Record<string, unknown>): string {
  const facts = (body.facts ?? {}) as Record<string, unknown>;
  const devices = num(body.devices);
  const before = facts.before === undefined ? null : num(facts.before);
  const why = reasonWords(text(body.reason));
  let change: string;
  if (devices === 0) change = before ? `lost its ${count(before, 'device')}` : 'waits';
  else if (before === null || before === 0) change = `got ${count(devices, 'device')}`;
  else if (before === devices) change = `keeps ${count(devices, 'device')}`;
  else change = `${before < devices ? 'grew' : 'shrank'} from ${before} to ${count(devices, 'device')}`;
  const numbers: string[] = [];
  if (num(facts.to_others) > 0) numbers.push(`${num(facts.to_others)} went to other jobs`);
  if (devices === 0 && num(facts.needs) > 0) numbers.push(`it needs ${num(facts.needs)}`);
  if (facts.free !== undefined) numbers.push(`${num(facts.free)} free`);
  return `${change}: ${why}${numbers.length ? ` (${numbers.join(', ')})` : ''}`;
}

function view(body: Record<string, unknown>): string {
  switch (text(body.type)) {
    case 'view': {
      const stall = num(body.stall_ms);
      const parts = [`${count(num(body.workers), 'worker')} from step ${num(body.step)}`];
      if (num(body.prepare_s) > 0) parts.push(`prepared in ${duration(num(body.prepare_s))}`);
      if (body.stall_ms !== undefined) parts.push(`survivors stalled ${number(stall)} ms`);
      if (num(body.steps_redone) > 0) parts.push(`${count(num(body.steps_redone), 'step')} redone`);
      return `${text(body.cause)}: ${parts.join(', ')}`;
    }
    case 'audit':
      return text(body.message) || `audit: all workers have the same bits at step ${num(body.step)}`;
    case 'metrics':
      return `metrics at step ${num(body.step)}`;
    default:
      return [text(body.type), text(body.message), text(body.reason)].filter(Boolean).join(': ');
  }
}

export function eventWords(event: RubatoEvent): string {
  const body = event.body;
  switch (event.type) {
    case 'granted': return granted(body);
    case 'held': return `its processes occupy ${count(num(body.devices), 'device')}`;
    case 'view': return view(body);
    case 'submitted': return 'was submitted';
    case 'finished': return 'finished';
    case 'failed': return `failed: ${text(body.message)}`;
    case 'cancelled': return `was cancelled${body.message ? `: ${text(body.message)}` : ''}`;
    case 'paused': return 'was paused by its owner';
    case 'resumed': return 'was resumed by its owner';
    case 'scaled': return num(body.devices) ? `was pinned to ${count(num(body.devices), 'device')}` : 'is not pinned any more';
    case 'stalled': return `has completed no step for ${duration(num(body.for_s))}`;
    case 'recovered': return 'makes progress again';
    case 'restarted': return 'was restarted from its last checkpoint';
    case 'capped': return num(body.max_useful) ? `is slower on more than ${count(num(body.max_useful), 'device')}` : 'may be tried on more devices again';
    case 'program': return `has ${count(num(body.logical_workers), 'logical worker')}`;
    case 'learned': return 'step times were measured';
    case 'progress': return `is at step ${num(body.step)}`;
    case 'warning': case 'error': return text(body.message);
    case 'policy': return `policy ${text(body.name)} decides from now on`;
    case 'reserved': return `${count(num(body.devices), 'device')} reserved`;
    case 'released': return 'a reservation ended';
    case 'tenant': return `tenant ${text(body.name)}: weight ${num(body.weight)}, quota ${num(body.quota) || 'none'}`;
    case 'tenant_removed': return `tenant ${text(body.name)} was deleted`;
    case 'node_lost': return `node ${text(body.name)} was lost`;
    case 'node_back': return `node ${text(body.name)} is back`;
    case 'drained': return `node ${text(body.name)} is drained`;
    case 'undrained': return `node ${text(body.name)} gets jobs again`;
    case 'node': return `node ${text(body.name)} joined`;
    case 'node_removed': return `node ${text(body.name)} was removed`;
    case 'nodes': return `the cluster has ${count(num(body.devices), 'device')}`;
    case 'started': return 'the daemon started';
    default: return event.type;
  }
}

// A change of a job's workers, for the chart.
export interface Resize { at: number; workers: number; cause: string; stall_ms: number | null }
export function resizeOf(event: RubatoEvent): Resize | null {
  const body = event.body;
  if (event.type !== 'view' || body.type !== 'view' || jobOf(event) === 0) return null;
  return {
    at: event.at, workers: num(body.workers), cause: text(body.cause),
    stall_ms: body.stall_ms === undefined || num(body.stall_ms) < 0 ? null : num(body.stall_ms),
  };
}

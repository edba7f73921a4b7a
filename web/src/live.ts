// What is new, from the daemon's one event stream. It begins where the last one ended, so nothing is
// missed while the connection is down.
import { failure, get, query, type Point, type RubatoEvent, type Sample } from './api';

type Listener = {
  event?: (event: RubatoEvent) => void;
  sample?: (sample: Sample) => void;
  point?: (point: Point) => void;
};

const listeners = new Set<Listener>();
const statusListeners = new Set<(connected: boolean) => void>();
let abort: AbortController | null = null;
let watched = '';
let last = -1; // number of the last event seen; -1: none yet
let connected = false;

export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => { listeners.delete(listener); };
}
export function onStatus(listener: (connected: boolean) => void): () => void {
  statusListeners.add(listener);
  listener(connected);
  return () => { statusListeners.delete(listener); };
}
// The stream also tells the progress of this job; '': of none.
export function watch(job: string): void {
  if (job === watched) return;
  watched = job;
  if (abort) start();
}
export function start(): void {
  stop();
  const own = new AbortController();
  abort = own;
  void run(own.signal);
}
export function stop(): void {
  abort?.abort();
  abort = null;
  setConnected(false);
}
export function forget(): void {
  stop();
  last = -1;
  watched = '';
}

function setConnected(now: boolean): void {
  if (now === connected) return;
  connected = now;
  for (const listener of statusListeners) listener(now);
}

async function run(signal: AbortSignal): Promise<void> {
  for (let wait = 250; !signal.aborted; wait = Math.min(wait * 2, 10_000)) {
    try {
      await follow(signal, () => { wait = 250; });
    } catch {
      if (signal.aborted) return;
    }
    setConnected(false);
    await new Promise((done) => setTimeout(done, wait));
  }
}

async function follow(signal: AbortSignal, onNews: () => void): Promise<void> {
  if (last < 0) {
    const page = await get<{ events: RubatoEvent[] }>('/api/v1/events?newest_first=true&limit=1');
    last = page.events[0]?.seq ?? 0;
  }
  const response = await fetch(`/api/v1/events${query({ live: true, watch: watched, after: last })}`,
    { headers: { Accept: 'text/event-stream' }, signal, credentials: 'same-origin' });
  if (!response.ok || !response.body) throw await failure(response);
  setConnected(true);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done || signal.aborted) return;
    onNews();
    text += value;
    const messages = text.split('\n\n');
    text = messages.pop() ?? '';
    for (const message of messages) deliver(message);
  }
}

function deliver(message: string): void {
  let type = '';
  let data = '';
  for (const line of message.split('\n')) {
    if (line.startsWith('event: ')) type = line.slice(7);
    if (line.startsWith('data: ')) data = line.slice(6);
  }
  if (data === '') return;
  const body: unknown = JSON.parse(data);
  for (const listener of [...listeners]) {
    if (type === 'sample') listener.sample?.(body as Sample);
    else if (type === 'point') listener.point?.(body as Point);
    else listener.event?.(body as RubatoEvent);
  }
  if (type !== 'sample' && type !== 'point') last = Math.max(last, (body as RubatoEvent).seq);
}

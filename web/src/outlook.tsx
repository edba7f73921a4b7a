// What is expected of a job: when it ends, within which range, and what happens to its devices before.
import type { Outlook } from './api';
import { duration } from './format';
import { Tile } from './parts';

// Seconds that are left now of what was left then.
function left(outlook: Outlook, seconds: number | null, now: number): number | null {
  return seconds === null ? null : Math.max(0, seconds - Math.max(0, now - outlook.at));
}

export function LeftTile({ outlook, now }: { outlook: Outlook | null; now: number }) {
  if (!outlook) return <Tile name="Left, about" value="–" />;
  const [about, low, high] = [outlook.end_in_s, outlook.earliest_s, outlook.latest_s].map((seconds) => left(outlook, seconds, now));
  const range = low !== null && high !== null ? `${duration(low)} to ${duration(high)}`
    : low !== null ? `at least ${duration(low)}` : about !== null ? 'range unknown' : 'unknown';
  return <Tile name="Left, about" value={duration(about)} hint={range} />;
}

export function Next({ outlook }: { outlook: Outlook | null }) {
  if (!outlook || (!outlook.change && outlook.end_in_s === null && outlook.earliest_s === null)) return null;
  return (
    <p class="next"><b>Next:</b> {outlook.text}
      <small> Simulated from what is known now; jobs that come later may change it.</small></p>
  );
}

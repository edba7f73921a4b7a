// What 20 open dashboards cost the daemon beside 100 running jobs. Prints its figures.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before } from 'node:test';
import { Daemon, logIn, openBrowser, openPage, seen, step, until, visit } from './world.mjs';

const jobs = 100;
const dashboards = 20;
const daemon = new Daemon(jobs);
let browser;

before(async () => {
  await daemon.start();
  await daemon.submit({ run: ['/bin/sleep', '100000'], name: 'sleeper', devices: '1', mode: 'rigid', array: `1-${jobs}` });
  await until('all run', async () => (await daemon.ask('GET', '/api/v1/cluster')).held === jobs);
  browser = await openBrowser();
});
after(async () => {
  await browser?.close();
  await daemon.remove();
});

// Seconds of processor time that the daemon has used.
function used() {
  const fields = readFileSync(`/proc/${daemon.process.pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

// The share of a core that the daemon uses while it sends this many samples, one a second.
async function share(samples) {
  const abort = new AbortController();
  const response = await fetch(`${daemon.url}/api/v1/events?live=true&after=1000000000000000`, {
    headers: { Authorization: `Bearer ${daemon.admin}`, Accept: 'text/event-stream' }, signal: abort.signal,
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const begin = [performance.now(), used()];
  for (let seenSamples = 0; seenSamples < samples;) {
    seenSamples += (await reader.read()).value.split('event: sample').length - 1;
  }
  const share_of_core = (used() - begin[1]) / ((performance.now() - begin[0]) / 1000);
  abort.abort();
  return share_of_core;
}

step('20 open dashboards cost less than 5 % of a core', async () => {
  await share(2); // the jobs have just started
  const alone = await share(6);
  const pages = await Promise.all(Array.from({ length: dashboards }, async (_, i) => {
    const page = await openPage(browser, daemon);
    await logIn(page, daemon);
    await visit(page, daemon, ['/', '/jobs', '/jobs/j1', '/cluster'][i % 4]);
    await page.getByText('live', { exact: true }).waitFor();
    return page;
  }));
  await share(2); // they have just been opened
  const watched = await share(6);
  const cost = watched - alone;
  console.log(`the daemon with ${jobs} running jobs: ${(alone * 100).toFixed(1)} % of a core; with ${dashboards} dashboards: ${(watched * 100).toFixed(1)} %`);
  assert.ok(cost < 0.05, `${(cost * 100).toFixed(1)} %`);
  for (const page of pages) assert.ok(await seen(page, () => document.querySelector('.live.on') !== null));
});

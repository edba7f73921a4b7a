// With 10,000 jobs and a day of history. Prints its figures.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before } from 'node:test';
import { Daemon, logIn, openBrowser, openPage, seen, step, until, visit } from './world.mjs';

const jobs = 10_000;
const daemon = new Daemon(4);
let browser;

// A day of samples, as the daemon would have kept them.
const history = `
import sqlite3, sys, time, math
db = sqlite3.connect(sys.argv[1] + '/series.db')
columns = [row[1] for row in db.execute('PRAGMA table_info(series)')][3:]
now = int(time.time())
for step, length in ((5, 7200), (60, 86400), (600, 31 * 86400)):
    rows = []
    for at in range((now - length) // step * step, now // step * step, step):
        wave = math.sin(at / 5000)
        values = {'devices': 4, 'allocated': 2 + 2 * wave, 'held': 2 + 2 * wave, 'training': 2 + wave, 'queued': 50 + 40 * wave}
        rows.append([step, at, 1] + [values.get(name, 1) for name in columns])
    db.executemany('INSERT OR REPLACE INTO series VALUES (' + ','.join('?' * (3 + len(columns))) + ')', rows)
db.commit()
`;

// Megabytes of a process; what several share counts in parts.
function proportional(pid) {
  const pss = /^Pss: +(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'));
  return Number(pss[1]) / 1000;
}

before(async () => {
  await daemon.start();
  await daemon.ask('POST', '/api/v1/reservations', { devices: 4, seconds: 86400 });
  await daemon.stop();
  daemon.python(history);
  await daemon.start();
  for (let first = 0; first < jobs; first += 1000) {
    await daemon.submit({ run: ['/bin/true'], name: `sweep-${first}`, devices: '1', mode: 'rigid', array: '1-1000' });
  }
  browser = await openBrowser();
});
after(async () => {
  await browser?.close();
  await daemon.remove();
});

step('the series of a day come in under 200 ms', async () => {
  const to = Math.floor(Date.now() / 1000);
  let worst = 0;
  for (let i = 0; i < 5; ++i) {
    const begin = performance.now();
    const series = await daemon.ask('GET', `/api/v1/series?from=${to - 86_400}&to=${to}&step=60`);
    worst = Math.max(worst, performance.now() - begin);
    assert.ok(series.at.length > 1400, String(series.at.length));
  }
  console.log(`series of a day: ${worst.toFixed(1)} ms at worst`);
  assert.ok(worst < 200);
});

step('the overview is interactive within 2 s', async () => {
  const page = await openPage(browser, daemon);
  await logIn(page, daemon, daemon.admin, '/#/?range=86400');
  await page.goto('about:blank');
  const begin = performance.now();
  await page.goto(`${daemon.url}/#/?range=86400`);
  await page.locator('[data-loaded=true]').waitFor();
  await page.locator('.chart canvas').first().waitFor();
  await page.getByRole('button', { name: '1 hour' }).click();
  await seen(page, () => location.hash.includes('range=3600'));
  const took = performance.now() - begin;
  console.log(`overview with ${jobs} jobs and a day of history: ${took.toFixed(0)} ms until a click was answered`);
  assert.ok(took < 2000);
  await page.context().close();
});

step('10,000 jobs scroll, and the memory stays small', async () => {
  const page = await openPage(browser, daemon);
  await logIn(page, daemon);
  await visit(page, daemon, '/jobs');
  const rows = page.locator('.rows');
  const toTheEnd = () => rows.evaluate((element) => { element.scrollTop = element.scrollHeight; });
  for (let listed = 0; listed < jobs;) {
    await toTheEnd();
    const before = listed;
    listed = await until('more jobs', async () => {
      const count = Number(await rows.getAttribute('aria-rowcount'));
      return count > before ? count : 0;
    });
  }
  await toTheEnd();
  await page.locator('.rows-inner [role=row]').getByText('j1', { exact: true }).waitFor();
  const inPage = await page.locator('.rows-inner [role=row]').count();
  assert.ok(inPage < 100, `${inPage} rows are in the page`);
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  const { processInfo } = await (await browser.newBrowserCDPSession()).send('SystemInfo.getProcessInfo');
  const used = processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => proportional(id));
  const most = Math.max(...used);
  console.log(`memory with all ${jobs} jobs in the list: ${most.toFixed(0)} MB, of which ${(usedSize / 1e6).toFixed(0)} MB are our objects`);
  assert.ok(most < 300);
  await page.context().close();
});

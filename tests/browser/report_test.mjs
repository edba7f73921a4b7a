// Reports of real simulations: policies side by side on one time axis, the slider, the command that
// repeats the run, and markup in names that stays text. A report is one file that asks for nothing else.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { axeSource, openBrowser, openPage, picture, seen, step, until } from './world.mjs';

const { RUBATO } = process.env;
const folder = mkdtempSync(join(tmpdir(), 'rubato-report-'));
const hostile = '<img src=x onerror=window.hacked=1>';
const trace = `${hostile}.jsonl`;
const rubato = (...words) => execFileSync(RUBATO, words, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
const one = { url: `file://${join(folder, 'one/report.html')}` };
const failing = { url: `file://${join(folder, 'failing/report.html')}` };
const both = { url: `file://${join(folder, 'both.html')}` };
let browser;
let page;

before(async () => {
  const jobs = rubato('workload', 'generate', '--jobs', '20', '--hours', '1', '--seed', '7').trim().split('\n').map((line) => JSON.parse(line));
  jobs[3].id = hostile;
  jobs[4].tenant = hostile;
  writeFileSync(join(folder, trace), jobs.map((job) => `${JSON.stringify(job)}\n`).join(''));
  rubato('sim', '--cluster', '4x4', '--policy', 'fifo,tiresias', '--workload', trace, '--out', 'one', '--quiet');
  rubato('sim', '--cluster', '4x4', '--policy', 'fifo', '--resize-cost', '300', '--workload', trace, '--out', 'two', '--quiet');
  writeFileSync(join(folder, 'failures.csv'), 'time,node,event\n1800,2,down\n5400,2,up\n');
  rubato('sim', '--cluster', '4x4:a100', '--policy', 'fifo', '--workload', trace, '--failures', 'failures.csv', '--out', 'failing', '--quiet');
  rubato('report', 'one', 'two', '--out', 'both.html');
  browser = await openBrowser();
  page = await openPage(browser, one);
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function visit(on, report, where) {
  await on.goto('about:blank');
  await on.goto(`${report.url}#/${where}`);
  await on.locator('main .page').waitFor();
}
async function unharmed(on) {
  assert.equal(await on.evaluate(() => window.hacked), undefined);
  assert.equal(await on.locator('img, main script').count(), 0);
}
// The devices that jobs hold at a time, as devices.csv has it.
function heldAt(name, policy, time) {
  const held = new Map();
  for (const line of readFileSync(join(folder, name, 'devices.csv'), 'utf8').trim().split('\n').slice(1)) {
    const [own, , , at, job, , devices] = line.split(',');
    if (own === policy && Number(at) <= time) held.set(job, Number(devices));
  }
  return [...held.values()].reduce((sum, n) => sum + n, 0);
}

step('both policies are in the table and in every figure', async () => {
  await visit(page, one, '');
  await page.getByText('Lowest mean job completion time:').waitFor();
  const summary = page.getByRole('region', { name: 'Summary' });
  for (const policy of ['fifo', 'tiresias']) {
    await summary.getByRole('row', { name: policy }).waitFor();
    assert.equal(await page.locator('.u-legend .u-label').getByText(policy, { exact: true }).count(), 3, 'queue, waits, completion times');
    await page.getByText(`${policy}: allocated`).waitFor();
  }
  await summary.getByRole('button', { name: 'allocated' }).click();
  await seen(page, () => document.querySelector('th[aria-sort=ascending]') !== null);
});

step('they share one time axis', async () => {
  const times = () => page.evaluate(() => [...document.querySelectorAll('.u-legend')].map((legend) =>
    [legend.querySelector('.u-label').textContent, legend.querySelector('.u-value').textContent]).filter(([label]) => label.startsWith('time')).map(([, value]) => value));
  await page.locator('.chart .u-over').first().hover({ position: { x: 300, y: 40 } });
  await until('all say the same time', async () => {
    const all = await times();
    return all.length === 4 && !all[0].includes('–') && new Set(all).size === 1;
  });
  const before = (await times())[0];
  await page.mouse.move(0, 0);
  const chart = page.getByRole('img', { name: /^fifo: allocated/ });
  await chart.focus();
  await chart.press('ArrowRight');
  await until('the keyboard moves the cursor', async () => {
    const all = await times();
    return !all[0].includes('–') && all[0] !== before && new Set(all).size === 1;
  });
});

step('a policy can be hidden, and the address says so', async () => {
  await page.getByRole('button', { name: 'fifo', exact: true }).click();
  await until('it is gone', async () => await page.getByText('fifo: allocated').count() === 0);
  await page.reload();
  await page.getByText('tiresias: allocated').waitFor();
  assert.equal(await page.getByText('fifo: allocated').count(), 0);
  await page.getByRole('button', { name: 'fifo', exact: true }).click();
  await page.getByText('fifo: allocated').waitFor();
});

step('the command repeats the run', async () => {
  const command = await page.locator('code.command').innerText();
  assert.match(command, /^rubato sim --cluster 4x4 --policy fifo,tiresias --workload '<img/);
  renameSync(join(folder, 'one'), join(folder, 'first'));
  execFileSync('bash', ['-c', command.replace(/^rubato/, '"$RUBATO"')], { cwd: folder, stdio: 'ignore' });
  for (const file of ['jobs.csv', 'timeline.csv', 'devices.csv']) {
    assert.equal(readFileSync(join(folder, 'one', file), 'utf8'), readFileSync(join(folder, 'first', file), 'utf8'));
  }
});

step('the slider shows who held the devices, under both policies', async () => {
  await visit(page, one, 'devices');
  const cells = (policy) => page.locator('.card').filter({ has: page.getByRole('heading', { name: policy, exact: true }) }).locator('a.cell').count();
  const slider = page.getByLabel('Time');
  for (const share of [0.3, 0.6]) {
    const at = Math.round(share * Number(await slider.getAttribute('max')));
    await slider.fill(String(at));
    await seen(page, (to) => Number(document.querySelector('[data-at]').dataset.at) === to, at);
    const start = Number(readFileSync(join(folder, 'one/timeline.csv'), 'utf8').split('\n')[1].split(',')[3]);
    for (const policy of ['fifo', 'tiresias']) {
      await until(`${policy} at ${at}`, async () => await cells(policy) === heldAt('one', policy, start + at));
    }
    await until('the address says the time', () => page.url().includes(`at=${at}`));
  }
  const before = await page.evaluate(() => Number(document.querySelector('[data-at]').dataset.at));
  await page.getByRole('button', { name: 'Next change' }).click();
  await seen(page, (from) => Number(document.querySelector('[data-at]').dataset.at) > from, before);
  await page.locator('a.cell').first().click();
  await page.getByRole('heading', { name: 'Under each policy' }).waitFor();
});

step('jobs are compared one by one, and markup in names is text', async () => {
  await visit(page, one, 'jobs');
  await page.getByRole('link', { name: hostile }).waitFor();
  await page.getByRole('cell', { name: hostile, exact: true }).nth(1).waitFor(); // the tenant
  await unharmed(page);
  await page.getByLabel('Name').fill('*onerror*');
  await until('one job is listed', async () => await page.locator('.rows-inner [role=row]').count() === 1);
  await page.getByRole('link', { name: hostile }).click();
  await page.getByRole('heading', { name: hostile }).waitFor();
  await page.getByRole('img', { name: /^Devices of this job/ }).waitFor();
  await unharmed(page);
  await visit(page, one, '');
  await page.getByRole('heading', { name: `Summary of ${hostile}` }).waitFor();
  await unharmed(page);
});

step('folders are side by side, each with its command', async () => {
  const other = await openPage(browser, both);
  await visit(other, both, '');
  for (const name of ['fifo (one)', 'tiresias', 'fifo (two)']) await other.getByText(`${name}: allocated`).waitFor();
  assert.equal(await other.locator('code.command').count(), 2);
  await other.getByText('--resize-cost 300').waitFor();
  await unharmed(other);
  assert.deepEqual(other.problems, []);
  await other.context().close();
});

step('a node that is down looks so', async () => {
  const other = await openPage(browser, failing);
  const start = Number(readFileSync(join(folder, 'failing/timeline.csv'), 'utf8').split('\n')[1].split(',')[3]);
  const down = other.getByRole('heading', { name: 'node 2 4 a100, down' });
  for (const [at, count] of [[1799, 0], [1801, 1], [5399, 1], [5401, 0]]) {
    await visit(other, failing, `devices?at=${at - start}`);
    assert.equal(await down.count(), count, `at ${at}`);
    assert.equal(await other.locator('.cell.down').count(), 4 * count);
  }
  assert.deepEqual(other.problems, []);
  await other.context().close();
});

step('no other script runs in the page', async () => {
  const other = await openPage(browser, one);
  await visit(other, one, '');
  await other.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'window.hacked = 1';
    document.body.append(script);
    document.body.insertAdjacentHTML('beforeend', '<img src="data:," onerror="window.hacked = 1">');
  });
  await until('it is reported', () => other.problems.some((problem) => problem.includes('Content Security Policy')));
  assert.equal(await other.evaluate(() => window.hacked), undefined);
  await other.context().close();
});

step('a served report has an address that nobody can guess', async () => {
  const server = spawn(RUBATO, ['report', 'one', 'two', '--serve'], { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = new Promise((done) => { server.once('exit', done); });
  let printed = '';
  server.stdout.on('data', (text) => { printed += text; });
  await until('it says its address', () => printed.includes('\n'));
  const served = { url: printed.trim() };
  assert.match(served.url, /^http:\/\/127\.0\.0\.1:\d+\/\w{20,}$/);
  assert.equal((await fetch(new URL('/', served.url))).status, 404);
  const other = await openPage(browser, { url: new URL('/', served.url).href });
  await visit(other, served, 'devices');
  await other.getByRole('heading', { name: 'fifo (two)' }).waitFor();
  await unharmed(other);
  await other.context().close();
  server.kill('SIGINT');
  assert.equal(await ended, 0);
});

const pages = ['', 'jobs', `jobs/${encodeURIComponent(hostile)}`, 'devices?at=600'];
for (const theme of ['light', 'dark']) {
  step(`axe-core finds no serious problem, ${theme}`, async () => {
    const other = await openPage(browser, both, { colorScheme: theme });
    const found = [];
    for (const where of pages) {
      await visit(other, both, where);
      await other.evaluate(axeSource);
      const result = await other.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      found.push(...result.violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map((problem) => `${where}: ${problem.id}: ${problem.nodes.slice(0, 3).map((node) => node.html).join(' ')}`));
    }
    assert.deepEqual(found, []);
    await other.context().close();
  });
}

step('it can be used on a phone', async () => {
  const other = await openPage(browser, both, { viewport: { width: 375, height: 700 } });
  for (const where of pages) {
    await visit(other, both, where);
    const wide = await other.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 375, `${where} is ${wide} pixels wide`);
  }
  await visit(other, both, 'jobs');
  const rows = await other.locator('.rows-inner [role=row]').count();
  assert.ok(rows > 5 && rows <= 40, `${rows} rows`);
  await other.context().close();
});

step('pictures for the documentation', async (t) => {
  if (!process.env.RUBATO_SCREENSHOTS) {
    t.skip('RUBATO_SCREENSHOTS is not set');
    return;
  }
  rubato('sim', '--cluster', '8x4', '--policy', 'fifo,tiresias,rubato', '--out', 'demo', '--quiet');
  const demo = { url: `file://${join(folder, 'demo/report.html')}` };
  const other = await openPage(browser, demo);
  await visit(other, demo, '');
  await picture(other, 'report');
  await visit(other, demo, 'devices?at=9000');
  await picture(other, 'report-devices');
  await other.context().close();
});

step('nothing went wrong on the way', () => {
  assert.deepEqual(page.problems, []);
});

// What people do with the dashboard: a real daemon, real jobs, a real browser.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { Daemon, logIn, openBrowser, openPage, picture, seen, step, toy, until, visit } from './world.mjs';

const daemon = new Daemon(4);
let browser;
let page;
let alice;

before(async () => {
  await daemon.start();
  alice = await daemon.tenant('alice', { weight: 2, quota: 3 });
  browser = await openBrowser();
  page = await openPage(browser, daemon);
});
after(async () => {
  await browser?.close();
  await daemon.remove();
});

step('a wrong token is refused, a right one logs in, and a log-out ends it', async () => {
  await page.goto(daemon.url);
  await page.getByLabel('Token').fill('rbt_wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('unknown token').waitFor();
  await logIn(page, daemon);
  await page.reload();
  await page.getByText('administrator').waitFor();
  const cookies = await page.context().cookies();
  assert.equal(cookies.length, 1);
  assert.equal(cookies[0].httpOnly, true);
  assert.equal(cookies[0].sameSite, 'Strict');
  assert.ok(!cookies[0].value.includes(daemon.admin), 'the token itself is not in the browser');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('Token').waitFor();
  await page.reload();
  await page.getByLabel('Token').waitFor();
  assert.equal((await page.context().cookies()).length, 0);
  await logIn(page, daemon);
});

step('a job is submitted beside its plan, and its page opens', async () => {
  await visit(page, daemon, '/submit');
  await page.getByLabel('Command').fill(`${toy} --steps 100000000 --compute-us 20000`);
  await page.getByLabel('Name').fill('language');
  await page.getByRole('textbox', { name: 'Devices' }).fill('1..4');
  await page.getByText('Would start now on').waitFor();
  await picture(page, 'submit');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await page.getByRole('heading', { name: 'language' }).waitFor();
  assert.match(page.url(), /#\/jobs\/j1$/);
});

step('a resize appears on the job page within a second', async () => {
  await visit(page, daemon, '/jobs/j1');
  const pin = (devices) => daemon.ask('POST', '/api/v1/jobs/language/scale', { devices });
  await pin(4);
  await until('the job trains on 4 devices', async () => {
    const job = await daemon.ask('GET', '/api/v1/jobs/j1');
    return job.held === 4 && job.progress.workers === 4 && job.progress.step > 100;
  });
  const rows = page.locator('table.resizes tbody tr');
  const known = await rows.count();
  await pin(2);
  const event = await until('the job shrank', async () => {
    const { events } = await daemon.ask('GET', '/api/v1/jobs/j1/events?newest_first=true&limit=20&types=view');
    return events.find((one) => one.body.type === 'view' && one.body.cause === 'leave');
  });
  await seen(page, (before) => document.querySelectorAll('table.resizes tbody tr').length > before, known);
  const seenAt = Date.now() / 1000;
  await rows.first().getByText('leave').waitFor();
  console.log(`a resize is on the page ${((seenAt - event.at) * 1000).toFixed(0)} ms after its event`);
  assert.ok(seenAt - event.at < 1, `${seenAt - event.at} s`);
  assert.match(await rows.first().innerText(), /ms/);
  await daemon.train('vision', '2');
  await page.getByText('Throughput', { exact: true }).waitFor();
  await until('progress moves', async () => (await daemon.steps('j1')) > 200);
  await seen(page, () => document.querySelectorAll('.chart').length >= 3);
});

step('a job page says when the job ends, how sure that is, and what comes next', async () => {
  await visit(page, daemon, '/jobs/j1');
  const left = page.locator('.tile', { hasText: 'Left, about' });
  await left.getByText(/^\d+ d \d+ h to \d+ d \d+ h$/).waitFor(); // its step times have a spread
  await page.getByText('keeps its devices to its end').waitFor();
  await picture(page, 'job', { fullPage: false });
  const later = await daemon.submit({ run: ['/bin/true'], name: 'later', devices: '2', mode: 'rigid', after: ['vision'] });
  await visit(page, daemon, `/jobs/${later.id}`);
  await page.getByText(/starts on 2 devices when j\d+ \(vision\) ends, in about \d+ d/).waitFor();
  await page.locator('.tile', { hasText: 'Left, about' }).getByText('unknown').waitFor();
  await daemon.ask('POST', `/api/v1/jobs/${later.id}/cancel`);
  await page.getByText('Left, about').waitFor({ state: 'detached' });
});

step('logs are followed and searched', async () => {
  const job = await daemon.shell('talks', 'i=0; while :; do i=$((i+1)); echo "line $i of the log"; [ $((i % 10)) = 0 ] && echo "needle $i"; sleep 0.05; done');
  await visit(page, daemon, `/jobs/${job.id}`);
  const logs = page.getByLabel('Output of the workers');
  await logs.getByText('needle 10', { exact: false }).first().waitFor();
  await page.getByLabel('Search').fill('NEEDLE');
  await page.locator('.logs mark').first().waitFor();
  const before = await page.locator('.logs mark').count();
  assert.ok(!(await logs.innerText()).includes('of the log'));
  await seen(page, (n) => document.querySelectorAll('.logs mark').length > n, before);
  await page.getByRole('button', { name: 'Cancel' }).waitFor();
  page.once('dialog', (dialog) => { void dialog.accept(); });
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('h1 .phase-cancelled').waitFor();
});

step('the overview is live, and says what was decided', async () => {
  await visit(page, daemon, '/');
  await page.getByText('Latest decisions').waitFor();
  await page.locator('.decisions').getByText('language').first().waitFor();
  await page.getByText(/shrank from 4 to 2 devices: its owner pinned its number of devices/).first().waitFor();
  await daemon.ask('POST', '/api/v1/jobs/language/scale', { devices: 1 });
  await page.locator('.decisions').getByText('was pinned to 1 device').waitFor();
  await page.getByText('live', { exact: true }).waitFor();
  await picture(page, 'overview');
});

step('a result is verified by an undisturbed run', async () => {
  const job = await daemon.submit({ run: [toy, '--steps', '300', '--compute-us', '1000'], name: 'short', devices: '1..2' });
  await visit(page, daemon, `/jobs/${job.id}`);
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.getByText('Verified: the undisturbed run').waitFor();
  const runs = await daemon.ask('GET', `/api/v1/jobs?labels=verifies%3D${job.id}`);
  assert.equal(runs.jobs[0].resizes, 0);
});

step('the slider shows who held the devices before', async () => {
  await visit(page, daemon, '/cluster');
  await seen(page, () => document.querySelectorAll('.cell').length === 4);
  await page.getByRole('link', { name: 'vision', exact: true }).waitFor();
  const held = async (job) => (await daemon.ask('GET', `/api/v1/jobs/${job}/events?types=held&limit=1`)).events[0].at;
  const earlier = Math.ceil(await held('language'));
  assert.ok(earlier < await held('vision'));
  await page.getByLabel('Time').fill(String(earlier));
  await seen(page, (at) => Number(document.querySelector('[data-at]')?.dataset.at) === at, earlier);
  assert.equal(await page.getByRole('link', { name: 'vision', exact: true }).count(), 0);
  assert.ok(await page.locator('a.cell').count() > 0, 'language had some');
  assert.match(page.url(), new RegExp(`at=${earlier}`));
  await page.getByRole('button', { name: 'Now' }).click();
  await page.getByRole('link', { name: 'vision', exact: true }).waitFor();
});

step('reserved devices are on the map, now and in the past', async () => {
  await visit(page, daemon, '/cluster');
  assert.equal(await page.locator('.cell.reserved').count(), 0);
  const { number } = await daemon.ask('POST', '/api/v1/reservations', { devices: 1, seconds: 3600 });
  await seen(page, () => document.querySelectorAll('.cell.reserved').length === 1);
  await page.locator('.cell.reserved').hover();
  await page.locator('.hovered').getByText(/^reserved for something other than training: 1 device until /).waitFor();
  await page.getByRole('cell', { name: /^reserved until/ }).waitFor();
  await page.getByRole('heading', { name: '1 reserved' }).waitFor();
  await picture(page, 'cluster');
  const { reservations } = await daemon.ask('GET', '/api/v1/devices');
  await until('the next second has begun', () => Date.now() / 1000 > Math.ceil(reservations[0].from) + 1);
  await daemon.ask('DELETE', `/api/v1/reservations/${number}`);
  await seen(page, () => document.querySelectorAll('.cell.reserved').length === 0);
  await visit(page, daemon, `/cluster?at=${Math.ceil(reservations[0].from)}`);
  await seen(page, () => document.querySelectorAll('.cell.reserved').length === 1);
  await page.getByRole('button', { name: 'Now' }).click();
  await seen(page, () => document.querySelectorAll('.cell.reserved').length === 0);
});

step('filters are in the address', async () => {
  await visit(page, daemon, '/jobs');
  await page.getByRole('button', { name: 'cancelled' }).click();
  await until('only cancelled jobs are listed', async () => await page.locator('.rows').getByText('language').count() === 0);
  await page.locator('.rows').getByText('talks').waitFor();
  assert.match(page.url(), /phases=cancelled/);
  await page.reload();
  await page.locator('.rows').getByText('talks').waitFor();
  assert.equal(await page.getByRole('button', { name: 'cancelled' }).getAttribute('aria-pressed'), 'true');
  await visit(page, daemon, '/jobs?name=vis*');
  await until('one job is listed', async () => await page.locator('.rows-inner [role=row]').count() === 1);
  await page.locator('.rows').getByText('vision').waitFor();
  await visit(page, daemon, '/jobs');
  await page.locator('.rows').getByText('language').waitFor();
  await picture(page, 'jobs');
});

step('an administrator compares two futures and switches the policy', async () => {
  await visit(page, daemon, '/policies');
  await page.getByRole('button', { name: /^fifo first/ }).click();
  await page.getByRole('button', { name: 'What if?' }).click();
  const futures = page.getByRole('region', { name: 'Two futures' });
  await futures.getByText('vision').waitFor();
  assert.equal(await futures.locator('.lane.now').count(), 2);
  assert.equal(await futures.locator('.lane.other').count(), 2);
  await picture(page, 'policies');
  await page.getByRole('button', { name: 'Use fifo' }).click();
  await page.getByRole('heading', { name: 'fifo decides' }).waitFor();
  await page.getByRole('button', { name: /^rubato/ }).first().click();
  await page.getByRole('button', { name: 'Use rubato' }).click();
  await page.getByRole('heading', { name: 'rubato decides' }).waitFor();
  await visit(page, daemon, '/tenants');
  await page.getByText('Its weight of 2 is a share of').waitFor();
  await picture(page, 'tenants');
});

step('a tenant sees its own jobs only', async () => {
  const other = await openPage(browser, daemon);
  await logIn(other, daemon, alice);
  await visit(other, daemon, '/jobs');
  await other.getByText('No job is like that').waitFor();
  await visit(other, daemon, '/cluster');
  await seen(other, () => document.querySelectorAll('.cell').length === 4);
  assert.ok(!(await other.locator('main').innerText()).includes('language'));
  await other.goto(`${daemon.url}/#/jobs/j1`);
  await other.getByText('there is no job j1').waitFor();
  await visit(other, daemon, '/policies');
  await other.getByText('Only an administrator can change the policy').waitFor();
  assert.deepEqual(other.problems, []);
  await other.context().close();
});

step('it reconnects by itself and misses nothing', async () => {
  await visit(page, daemon, '/jobs');
  await daemon.stop('SIGKILL');
  await page.getByText('reconnecting').waitFor();
  await daemon.start();
  await daemon.shell('afterwards', 'echo done');
  await page.getByText('live', { exact: true }).waitFor();
  await page.locator('.rows').getByText('afterwards').waitFor();
});

step('a replaced token ends the session', async () => {
  const other = await openPage(browser, daemon);
  await logIn(other, daemon, alice);
  await daemon.tenant('alice', { new_token: true });
  await other.getByLabel('Token').waitFor();
  await other.context().close();
});

step('nothing went wrong on the way', () => {
  assert.deepEqual(page.problems, []);
});

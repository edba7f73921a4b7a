// What jobs and people write never becomes markup, no script runs but the dashboard's own, a session
// works from our own page only, and everybody can use the pages (axe-core).
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { axeSource, Daemon, logIn, openBrowser, openPage, step, until, visit } from './world.mjs';

const daemon = new Daemon(2);
const attack = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';
const hostile = '<img src=x onerror=window.hacked=1>';
let browser;
let page;

before(async () => {
  await daemon.start();
  await daemon.tenant('alice', { weight: 1 });
  browser = await openBrowser();
  page = await openPage(browser, daemon);
  await daemon.train('plain', '1..2', { labels: { team: 'a' } });
  await daemon.shell(hostile, `i=0; while :; do echo '${attack}'; sleep 0.2; done`, { labels: { note: '<i>x' } });
  await until('the job trains', async () => (await daemon.steps('plain')) > 20);
  await logIn(page, daemon);
});
after(async () => {
  await browser?.close();
  await daemon.remove();
});

async function unharmed(on = page) {
  assert.equal(await on.evaluate(() => window.hacked), undefined);
  assert.equal(await on.locator('main img, main script, main i').count(), 0);
}

step('markup in names, labels and logs is text', async () => {
  const list = await daemon.ask('GET', '/api/v1/jobs?newest_first=true');
  const bold = list.jobs.find((job) => job.name === hostile);
  await visit(page, daemon, `/jobs/${bold.id}`);
  await page.getByRole('heading', { name: hostile }).waitFor();
  await page.locator('.logs').getByText(attack).first().waitFor();
  await page.getByText('note=<i>x').waitFor();
  await page.getByLabel('Search').fill('onerror');
  await page.locator('.logs mark').first().waitFor();
  await unharmed();
  for (const where of ['/', '/jobs', '/cluster']) {
    await visit(page, daemon, where);
    await page.getByText(hostile).first().waitFor();
    await unharmed();
  }
});

// Every text of every answer has an attack in it, also where the daemon would never let one through.
const kept = new Set(['id', 'job', 'phase', 'type', 'code']);
function poisoned(value, name = '') {
  if (typeof value === 'string') return kept.has(name) ? value : value + attack;
  if (Array.isArray(value)) return value.map((one) => poisoned(one, name));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, poisoned(one, key)]));
}

step('markup in every text of every answer is text', async () => {
  const other = await openPage(browser, daemon);
  await logIn(other, daemon);
  await other.route('**/api/v1/**', async (route) => {
    const request = route.request();
    if (request.headers().accept?.includes('event-stream') || request.url().includes('/logs')) {
      await route.continue();
      return;
    }
    const response = await route.fetch();
    const json = await response.json().catch(() => null);
    if (json?.points) json.points = json.points.map((point) => ({ ...point, metrics: { [attack]: 1 } }));
    await route.fulfill({ response, ...(json ? { json: poisoned(json) } : {}) });
  });
  for (const where of ['/', '/jobs', '/jobs/j1', '/cluster', '/tenants', '/policies', '/submit']) {
    await other.goto(`${daemon.url}/#${where}`);
    await other.reload();
    await other.locator('[data-loaded]').waitFor();
    await other.locator('main').getByText('<img src=x').first().waitFor();
    await unharmed(other);
  }
  assert.deepEqual(other.problems.filter((one) => one.startsWith('asked')), []);
  // The page asks until it is closed: an answer that is being altered then has nowhere to go.
  await other.unrouteAll({ behavior: 'ignoreErrors' });
  await other.context().close();
});

step('the content-security-policy forbids scripts and styles within the page', async () => {
  const response = await fetch(daemon.url);
  const policy = response.headers.get('content-security-policy');
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /script-src 'self'/);
  assert.ok(!policy.includes('unsafe'));
  const other = await openPage(browser, daemon);
  await other.goto(daemon.url);
  await other.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'window.hacked = 1';
    document.body.append(script);
    document.body.insertAdjacentHTML('beforeend', '<img src="/nothing" onerror="window.hacked = 1">');
  });
  await until('it is reported', () => other.problems.some((one) => one.includes('Content Security Policy')));
  assert.equal(await other.evaluate(() => window.hacked), undefined);
  await other.context().close();
  // What jobs write is never a page of ours.
  const api = await fetch(`${daemon.url}/api/v1/openapi.json`);
  assert.match(api.headers.get('content-security-policy'), /sandbox/);
  assert.equal(api.headers.get('x-content-type-options'), 'nosniff');
});

step('a session changes something only from our own page', async () => {
  const [cookie] = await page.context().cookies();
  const ask = (headers) => fetch(`${daemon.url}/api/v1/jobs/plain/pause`, {
    method: 'POST', headers: { Cookie: `${cookie.name}=${cookie.value}`, ...headers },
  });
  assert.equal((await ask({})).status, 403);
  assert.equal((await ask({ Origin: 'http://evil.example' })).status, 403);
  assert.equal((await ask({ Origin: daemon.url.replace(/:\d+$/, ':1') })).status, 403);
  assert.equal((await daemon.ask('GET', '/api/v1/jobs/plain')).phase, 'running');
  const login = await fetch(`${daemon.url}/api/v1/session`, {
    method: 'POST', headers: { 'Content-Type': 'application/json', Origin: 'http://evil.example' },
    body: JSON.stringify({ token: daemon.admin }),
  });
  assert.equal(login.status, 403);
  const altered = `${cookie.value.slice(0, -1)}${cookie.value.endsWith('0') ? '1' : '0'}`;
  const forged = await fetch(`${daemon.url}/api/v1/jobs`, { headers: { Cookie: `${cookie.name}=${altered}` } });
  assert.equal(forged.status, 401);
});

step('a device is reserved from now on', async () => {
  await daemon.ask('POST', '/api/v1/reservations', { devices: 1, seconds: 3600 });
});

for (const theme of ['light', 'dark']) {
  step(`axe-core finds no serious problem, ${theme}`, async () => {
    const other = await openPage(browser, daemon, { colorScheme: theme });
    await other.goto(daemon.url);
    await other.getByLabel('Token').waitFor();
    const found = [];
    const check = async (where) => {
      await other.evaluate(axeSource);
      const result = await other.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      const serious = result.violations.filter((one) => one.impact === 'serious' || one.impact === 'critical')
        .map((one) => `${where}: ${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html).join(' ')}`);
      found.push(...serious);
    };
    await check('login');
    await logIn(other, daemon);
    for (const where of ['/', '/jobs', '/jobs/j1', '/cluster', '/tenants', '/policies', '/submit']) {
      await visit(other, daemon, where);
      await check(where);
    }
    assert.deepEqual(found, []);
    await other.context().close();
  });
}

step('the pages can be used with the keyboard and on a phone', async () => {
  const other = await openPage(browser, daemon, { viewport: { width: 375, height: 700 } });
  await logIn(other, daemon);
  for (const where of ['/', '/jobs', '/jobs/j1', '/cluster', '/tenants', '/policies', '/submit']) {
    await visit(other, daemon, where);
    const wide = await other.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 375, `${where} is ${wide} pixels wide`);
  }
  await visit(other, daemon, '/jobs');
  await other.keyboard.press('Tab');
  assert.equal(await other.evaluate(() => document.activeElement?.textContent), 'Skip to the content');
  await other.keyboard.press('Enter');
  assert.equal(await other.evaluate(() => document.activeElement?.id), 'main');
  await other.locator('.rows a').first().focus();
  await other.keyboard.press('Enter');
  await other.getByText('Device time').waitFor();
  await other.context().close();
});

step('nothing went wrong on the way', () => {
  assert.deepEqual(page.problems, []);
});

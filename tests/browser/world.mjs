// What the tests of the dashboard share: a real daemon with real jobs, and a browser. Every wait is for
// a condition.
import { spawn, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, existsSync, writeFileSync, mkdirSync, openSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

const { RUBATOD, RUBATO_TOY, RUBATO_WEB, RUBATO_SCREENSHOTS } = process.env;
const require = createRequire(join(RUBATO_WEB, 'package.json'));
const { chromium } = require('playwright-core');
export const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
export const toy = RUBATO_TOY;
const patience_ms = Number(process.env.RUBATO_PATIENCE_S ?? 120) * 1000;

// A test that builds on those before it in its file: when one has failed, the others are skipped.
let failed = false;
export function step(name, body) {
  test(name, async (t) => {
    if (failed) {
      t.skip('an earlier step failed');
      return;
    }
    failed = true;
    await body(t);
    failed = false;
  });
}

export async function until(what, condition) {
  for (const end = Date.now() + patience_ms; Date.now() < end;) {
    const value = await condition();
    if (value) return value;
    await pause(20);
  }
  throw new Error(`never true: ${what}`);
}

export class Daemon {
  // Without slots, it has the devices that programs and variables in `environment` show it.
  constructor(slots, environment = {}) {
    this.environment = environment;
    this.folder = mkdtempSync(join(tmpdir(), 'rubato-browser-'));
    this.state = join(this.folder, 'state');
    this.slots = slots;
  }
  async start() {
    rmSync(join(this.state, 'server.url'), { force: true });
    const log = openSync(join(this.folder, 'log'), 'a');
    this.process = spawn(RUBATOD, ['--state', this.state, '--isolation', 'none', ...(this.slots ? ['--cpu-slots', String(this.slots)] : []), '--node', 'server-1',
      '--listen', this.url ? this.url.slice(7) : '127.0.0.1:0'], { stdio: ['ignore', log, log], env: { ...process.env, ...this.environment } });
    await until('the daemon listens', () => existsSync(join(this.state, 'server.url')));
    this.url = readFileSync(join(this.state, 'server.url'), 'utf8').trim();
    this.admin = readFileSync(join(this.state, 'admin.token'), 'utf8').trim();
  }
  async stop(signal = 'SIGTERM') {
    const ended = new Promise((done) => { this.process.once('exit', done); });
    this.process.kill(signal);
    await ended;
  }
  async remove() {
    await this.ask('POST', '/api/v1/cancel', { name: '*' }).catch(() => {});
    await until('the jobs have ended', async () => (await this.ask('GET', '/api/v1/cluster')).held === 0);
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
  async ask(method, path, body, token = this.admin) {
    const response = await fetch(this.url + path, {
      method, body: body === undefined ? undefined : JSON.stringify(body),
      headers: { Authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === '' ? null : JSON.parse(text);
  }
  submit(document, token) { return this.ask('POST', '/api/v1/jobs', document, token); }
  // A training job that goes on until it is cancelled.
  train(name, devices, more = {}) {
    return this.submit({ run: [toy, '--steps', '100000000', '--compute-us', '20000'], name, devices, ...more });
  }
  // An ordinary program.
  shell(name, text, more = {}) {
    return this.submit({ run: ['/bin/sh', '-c', text], name, devices: '1', mode: 'rigid', ...more });
  }
  async steps(job) { return (await this.ask('GET', `/api/v1/jobs/${job}`)).progress.step ?? 0; }
  async tenant(name, change = {}) { return (await this.ask('PUT', `/api/v1/tenants/${name}`, change)).token; }
  python(text) { return execFileSync('python3', ['-c', text, this.state], { encoding: 'utf8' }); }
}

export async function openBrowser() {
  return await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  });
}

// A page that fails the test if it throws, asks another server, or breaks the content-security-policy.
export async function openPage(browser, daemon, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(`error: ${error.message}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(daemon.url)) page.problems.push(`asked ${request.url()}`);
  });
  page.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) page.problems.push(message.text());
  });
  page.setDefaultTimeout(patience_ms);
  return page;
}

export async function logIn(page, daemon, token = daemon.admin, where = '/') {
  await page.goto(daemon.url + where);
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('button', { name: 'Log out' }).waitFor();
}

// Goes to a page of the dashboard and waits until it shows what it loaded.
export async function visit(page, daemon, where) {
  await page.goto(`${daemon.url}/#${where}`);
  await page.locator('[data-loaded=true]').waitFor();
}

// Waits until the function is true in the page. Playwright's waitForFunction evaluates a string there,
// which our content-security-policy forbids.
export async function seen(page, what, argument) {
  return await until(String(what), () => page.evaluate(what, argument));
}

// With RUBATO_SCREENSHOTS=FOLDER, pictures for the documentation.
export async function picture(page, name, options = {}) {
  if (!RUBATO_SCREENSHOTS) return;
  mkdirSync(RUBATO_SCREENSHOTS, { recursive: true });
  writeFileSync(join(RUBATO_SCREENSHOTS, `${name}.png`), await page.screenshot(options));
}

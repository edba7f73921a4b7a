// What a GPU's driver tells, on every page that shows it. There is no GPU here: a program and a library
// stand in for nvidia-smi and NVIDIA's management library, as rubatod sees them.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before } from 'node:test';
import { Daemon, logIn, openBrowser, openPage, picture, seen, step, until, visit } from './world.mjs';

const programs = mkdtempSync(join(tmpdir(), 'rubato-gpus-'));
writeFileSync(join(programs, 'nvidia-smi'), '#!/bin/sh\necho "GPU-bbbb, Test GPU"\necho "GPU-aaaa, Test GPU"\n');
chmodSync(join(programs, 'nvidia-smi'), 0o755);
const daemon = new Daemon(0, {
  PATH: `${programs}:${process.env.PATH}`,
  RUBATO_NVML: join(dirname(process.env.RUBATOD), 'libfake_nvml.so'),
});
let browser;
let page;

before(async () => {
  await daemon.start();
  browser = await openBrowser();
  page = await openPage(browser, daemon);
  await logIn(page, daemon);
  await daemon.train('language', '1');
  await until('the job trains', async () => (await daemon.steps('language')) > 20);
});
after(async () => {
  await browser?.close();
  await daemon.remove();
  rmSync(programs, { recursive: true });
});

step('the map says how busy each device is', async () => {
  const { use } = await until('the driver was asked', async () => {
    const devices = await daemon.ask('GET', '/api/v1/devices');
    return devices.use.some((one) => one.job === 'j1') ? devices : null;
  });
  assert.deepEqual(use.map(({ index, utilisation }) => [index, utilisation]), [[0, 0.75], [1, 0.25]]);
  await visit(page, daemon, '/cluster');
  await page.locator('a.cell').hover();
  await page.locator('.hovered').getByText(/language \(j1.* · device \d, computes \d+ % of the time, \d+ GiB of 80 GiB in use$/).waitFor();
  await page.locator('span.cell').hover();
  await page.locator('.hovered').getByText(/^free · device \d, computes/).waitFor();
});

step('the overview and the job have it as curves', async () => {
  await visit(page, daemon, '/');
  await page.getByRole('img', { name: /as their drivers tell.* Now: computing: 50, memory: 25$/ }).waitFor();
  await picture(page, 'gpus');
  await visit(page, daemon, '/jobs/j1');
  await page.getByRole('img', { name: /as their drivers tell.* Now: computing: (25|75), memory: / }).waitFor();
  const { points } = await daemon.ask('GET', '/api/v1/jobs/j1/series');
  assert.ok(points.some((point) => [0.25, 0.75].includes(point.utilisation)));
});

step('without a driver nothing is shown, and nothing is zero', async () => {
  const plain = new Daemon(1);
  await plain.start();
  const other = await openPage(browser, plain);
  await logIn(other, plain);
  const series = await until('it was looked at', async () => {
    const got = await plain.ask('GET', '/api/v1/series');
    return got.at.length > 0 ? got : null;
  });
  assert.ok(!('utilisation' in series) && !('memory' in series));
  assert.deepEqual((await plain.ask('GET', '/api/v1/devices')).use, []);
  await visit(other, plain, '/');
  await seen(other, () => document.querySelectorAll('.chart').length >= 2);
  assert.equal(await other.getByText('as their drivers tell').count(), 0);
  assert.deepEqual(other.problems, []);
  await other.context().close();
  await plain.remove();
});

step('nothing went wrong on the way', () => {
  assert.deepEqual(page.problems, []);
});

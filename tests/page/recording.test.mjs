// The page of a recorded run in Chromium, and the page over its own TLS.
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after, before } from 'node:test';
import { promisify } from 'node:util';
import {
  CHROMIUM,
  freePort,
  NW,
  openTab,
  overflowOfPhone,
  require,
  screenshot,
  startBrowser,
  TOKEN,
  until,
  walkByKeyboard,
} from './harness.mjs';

const skip = CHROMIUM ? false : 'no chromium here (tools/setup test installs it)';
const hasOpenssl = () => {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};
const skipTls = skip || (hasOpenssl() ? false : 'no openssl here: no certificate can be made');
const axe = () => readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
let [folder, browser] = [];

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), 'nw-page-'));
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** Starts a command that runs until the test ends. Returns its process and what it printed. */
function start(t, ...args) {
  const child = spawn(NW, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const printed = { out: '', error: '' };
  child.stdout.on('data', (part) => (printed.out += part));
  child.stderr.on('data', (part) => (printed.error += part));
  t.after(async () => {
    if (child.exitCode !== null) return;
    const ended = new Promise((done) => child.once('exit', done));
    child.kill('SIGINT');
    await ended;
  });
  return { child, printed };
}

test('recorded_simulation_is_replayed_with_its_failure', { skip }, async (t) => {
  const file = join(folder, 'run.json');
  await promisify(execFile)(NW, [
    ...['sim', 'run', '--topology', 'grid:4x4', '--duration', '4', '--record', file],
    ...['--at', '2s node n5 down', '--at', '3s node n5 up'],
  ]);
  const { printed } = start(t, 'open', file, '--print');
  const url = (await until('a URL is printed', () => printed.out.includes('\n') && printed.out)).trim();
  const { tab, context, faults } = await openTab(browser, new URL(url).origin, { bypassCSP: true });
  t.after(() => context.close());
  await tab.goto(url);
  await tab.getByText('grid:4x4, 16 nodes').waitFor();
  await tab.locator('.node-table summary').click();
  const row = tab.locator('.node-table tbody tr', { hasText: /^n5/ });
  const slider = tab.getByRole('slider', { name: 'Time' });
  await slider.fill('120');
  await row.getByText('failed').waitFor();
  assert.match(await tab.locator('#moment').innerText(), /^2\.4/);
  await slider.fill('190');
  await row.getByText(/works|idle/).waitFor();
  await tab.getByRole('button', { name: /^2\.0/ }).first().click();
  await row.getByText('failed').waitFor();
  await tab.getByRole('button', { name: 'Play' }).click();
  await until('time goes on', async () => Number(await slider.inputValue()) > 102);
  await tab.getByRole('button', { name: 'Pause' }).click();
  assert.deepEqual(await walkByKeyboard(tab), []);
  assert.equal(await overflowOfPhone(tab), 0);
  for (const theme of ['light', 'dark']) {
    await tab.getByLabel('Colours').selectOption(theme);
    await new Promise((go) => setTimeout(go, 400));
    await screenshot(tab, `recording-${theme}`);
    await tab.evaluate(axe());
    const { violations } = await tab.evaluate(() =>
      globalThis.axe.run(document, { resultTypes: ['violations'] }),
    );
    const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
    assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), [], theme);
  }
  assert.deepEqual(faults, []);
});

test('file_that_is_no_recording_is_refused_with_advice', { skip }, async () => {
  const file = join(folder, 'wrong.json');
  writeFileSync(file, '{"nodes": 3}');
  const refused = await promisify(execFile)(NW, ['open', file]).catch((error) => error);
  assert.match(refused.stderr, /is not a recording: make one with nw sim run, nw lab run or/);
  assert.match(refused.stderr, /nw lab cluster, with --record/);
});

test('page_over_its_own_tls_takes_a_login_and_sets_a_secure_cookie', { skip: skipTls }, async (t) => {
  const [certificate, key] = [join(folder, 'page.pem'), join(folder, 'key.pem')];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
      ...['-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'],
      ...['-keyout', key, '-out', certificate],
    ],
    { stdio: 'ignore' },
  );
  const ports = [await freePort(), await freePort(), await freePort()];
  writeFileSync(join(folder, 'token'), `${TOKEN}\n`, { mode: 0o600 });
  const config = join(folder, 'tls.toml');
  writeFileSync(
    config,
    `[faces.unix]\npath = "${folder}/tls.sock"\n[faces.udp]\nlisten = ["127.0.0.1:${ports[0]}"]\n` +
      `[faces.tcp]\nlisten = ["127.0.0.1:${ports[1]}"]\n[page]\nlisten = ["0.0.0.0:${ports[2]}"]\n` +
      `allow_remote = true\ntoken_file = "${folder}/token"\n` +
      `certificate = "${certificate}"\nkey = "${key}"\n`,
  );
  const { printed, child } = start(t, 'run', '-c', config);
  await until('the router runs', () => {
    assert.equal(child.exitCode, null, printed.error);
    return printed.error.includes(' running ');
  });
  const origin = `https://localhost:${ports[2]}`;
  const { tab, context, faults } = await openTab(browser, origin, { ignoreHTTPSErrors: true });
  t.after(() => context.close());
  await tab.goto(origin);
  await tab.getByLabel('Token').fill('not the token of this page');
  await tab.getByRole('button', { name: 'Log in' }).click();
  await tab.getByRole('alert').getByText('the token is wrong').waitFor();
  await tab.getByLabel('Token').fill(TOKEN);
  await tab.getByRole('button', { name: 'Log in' }).click();
  await tab.getByText('● live').waitFor();
  const cookies = await context.cookies();
  const session = cookies.find(({ name }) => name === `nw_session_${ports[2]}`);
  const { secure, httpOnly, sameSite } = session;
  assert.deepEqual({ secure, httpOnly, sameSite }, { secure: true, httpOnly: true, sameSite: 'Strict' });
  // The browser itself reports the refused login.
  assert.deepEqual(faults.filter((fault) => !fault.includes('status of 401')), []);
  const plain = await fetch(`http://localhost:${ports[2]}/`).catch(() => 'refused');
  assert.equal(plain, 'refused', 'the port speaks TLS only');
});

// The page of a balancer in Chromium: members, a drain, where a name goes. The balancer and the
// browser run in a network namespace of their own.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after, before } from 'node:test';
import { promisify } from 'node:util';
import {
  CHROMIUM,
  NW,
  openTab,
  overflowOfPhone,
  require,
  screenshot,
  startBrowser,
  until,
  walkByKeyboard,
} from './harness.mjs';

const skip = !CHROMIUM
  ? 'no chromium here (tools/setup test installs it)'
  : process.geteuid() !== 0 && 'kernel programs need root';
const PORT = 6390;
let [folder, balancer, browser] = [];

const run = promisify(execFile);
const inNamespace = (...args) => run('nsenter', ['-t', String(balancer.pid), '-n', '-m', ...args]);

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), 'nw-page-'));
  mkdirSync(join(folder, 'bpf'));
  writeFileSync(
    join(folder, 'b.toml'),
    `[cluster]
addresses = ["192.0.2.1"]
interfaces = ["out", "in1"]
attach = "generic"
control_member = "m1"
state_dir = "${folder}/state"
bpffs_dir = "${folder}/bpf"
secret = "a secret of this test alone"
[routes]
replicate = false
[control]
path = "${folder}/balancer.sock"
[page]
listen = ["127.0.0.1:${PORT}"]
[[member]]
name = "m1"
addresses = ["10.1.1.2"]
port = 6401
[[member]]
name = "m2"
addresses = ["10.1.1.3"]
port = 6402
`,
  );
  const links = ['out 192.0.2.1/24', 'in1 10.1.1.1/24'].map((link) => {
    const [name, address] = link.split(' ');
    return `ip link add ${name} type veth peer name ${name}p
ip address add ${address} dev ${name}; ip link set ${name} up; ip link set ${name}p up`;
  });
  const script = `ip link set lo up; mount -t bpf bpf bpf\n${links.join('\n')}
exec ${NW} balancer run -c b.toml`;
  const args = ['--net', '--mount', 'sh', '-ec', script];
  balancer = spawn('unshare', args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  balancer.stdout.on('data', (part) => (log += part));
  balancer.stderr.on('data', (part) => (log += part));
  await until('the balancer serves its page', () => {
    if (balancer.exitCode !== null) throw new Error(`the balancer ended: ${log}`);
    return log.includes(`http://127.0.0.1:${PORT}/`);
  });
  const wrapper = join(folder, 'chromium');
  const command = `exec nsenter -t ${balancer.pid} -n ${CHROMIUM} "$@"`;
  writeFileSync(wrapper, `#!/bin/sh\n${command}\n`, { mode: 0o755 });
  browser = await startBrowser(wrapper);
});
after(async () => {
  await browser?.close();
  if (balancer?.exitCode === null) {
    const ended = new Promise((done) => balancer.once('exit', done));
    balancer.kill('SIGTERM');
    await ended;
  }
  if (folder) rmSync(folder, { recursive: true, force: true });
});

test('cluster_page_shows_members_drains_one_and_finds_a_name', { skip }, async (t) => {
  const origin = `http://127.0.0.1:${PORT}`;
  const { tab, context, faults } = await openTab(browser, origin, { bypassCSP: true });
  t.after(() => context.close());
  const { stdout } = await inNamespace(
    NW,
    'open',
    '--print',
    '--balancer',
    `${folder}/balancer.sock`,
  );
  await tab.goto(stdout.trim());
  const row = tab.locator('#members tr', { hasText: 'm2' });
  await row.waitFor();
  await row.getByRole('button', { name: 'Drain m2' }).click();
  await row.getByRole('button', { name: 'Confirm: Drain m2' }).click();
  await row.getByRole('button', { name: 'Activate' }).waitFor();
  const status = await inNamespace(
    NW,
    'balancer',
    'status',
    '--control',
    `${folder}/balancer.sock`,
  );
  assert.match(status.stdout, /m2\s.*drain/);
  await row.getByRole('button', { name: 'Activate' }).click();
  await row.getByRole('button', { name: 'Drain m2' }).waitFor();
  await row.getByLabel('Weight of m2').fill('300');
  await row.getByRole('button', { name: 'Set' }).click();
  await tab.getByText('m2 has the weight 300.').waitFor();
  await until('the balancer has the weight', async () => {
    const socket = `${folder}/balancer.sock`;
    const { stdout: text } = await inNamespace(NW, 'balancer', 'status', '--json', '--control', socket);
    return JSON.parse(text).members.find(({ name }) => name === 'm2').weight === 300;
  });
  const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
  for (const [theme, view] of ['light', 'dark'].flatMap((theme) =>
    ['Members', 'Map', 'Names'].map((view) => [theme, view]),
  )) {
    await tab.getByLabel('Colours').selectOption(theme);
    await tab.getByRole('tab', { name: view }).click();
    await new Promise((go) => setTimeout(go, 300));
    await screenshot(tab, `cluster-${view.toLowerCase()}-${theme}`);
    await tab.evaluate(axe);
    const { violations } = await tab.evaluate(() =>
      globalThis.axe.run(document, { resultTypes: ['violations'] }),
    );
    const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
    assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), [], view);
    if (theme === 'dark') continue;
    assert.deepEqual(await walkByKeyboard(tab), [], view);
    assert.equal(await overflowOfPhone(tab), 0, view);
  }
  await tab.getByRole('tab', { name: 'Map' }).click();
  await tab.locator('.node-table summary').click();
  await tab.locator('.node-table tbody').getByText('m1').waitFor();
  await tab.getByRole('tab', { name: 'Names' }).click();
  await tab.getByLabel('Name', { exact: true }).fill('/example/film');
  await tab.getByRole('button', { name: 'Find' }).click();
  await tab.getByText('goes to').waitFor();
  assert.deepEqual(faults, []);
});

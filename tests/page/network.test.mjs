// The page of a network in Chromium: the map of a real network, scaling, a document that changes,
// a service that is killed and comes back.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
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
  root,
  screenshot,
  startBrowser,
  until,
} from './harness.mjs';

const skip = CHROMIUM ? false : 'no chromium here (tools/setup test installs it)';
let [folder, port, manager, browser] = [];

const nw = async (...args) => (await promisify(execFile)(NW, args)).stdout;
const network = ['--name', 'pages', '--directory'];

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), 'nw-page-'));
  port = await freePort();
  // The example, with sockets of this test.
  const text = readFileSync(join(root, 'examples/networks/chain.graph'), 'utf8');
  const graph = join(folder, 'pages.graph');
  writeFileSync(graph, text.replaceAll('unix:///tmp/', `unix://${folder}/`));
  const args = ['network', 'up', graph, ...network, folder, '--page', `127.0.0.1:${port}`];
  manager = spawn(NW, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  manager.stdout.on('data', (part) => (log += part));
  manager.stderr.on('data', (part) => (log += part));
  browser = await startBrowser();
  await until(
    'the network is as described',
    async () => {
      if (manager.exitCode !== null) throw new Error(`the manager ended: ${log}`);
      const shown = await nw('network', 'show', ...network, folder, '--json').catch(() => '');
      return shown.includes('"converged"');
    },
    40_000,
  );
});
after(async () => {
  await browser?.close();
  if (manager?.exitCode === null) {
    const ended = new Promise((done) => manager.once('exit', done));
    manager.kill('SIGINT');
    await ended;
  }
  if (folder) rmSync(folder, { recursive: true, force: true });
});

async function openPage(t, options) {
  const url = (await nw('open', '--print', '--network', 'pages', '--directory', folder)).trim();
  const opened = await openTab(browser, `http://127.0.0.1:${port}`, options);
  t.after(() => opened.context.close());
  await opened.tab.goto(url);
  await opened.tab.getByText('● live').waitFor();
  return opened;
}

const showTable = (tab) => tab.locator('.node-table summary').click();

test('network_map_shows_instances_and_their_details', { skip }, async (t) => {
  const { tab, faults } = await openPage(t);
  await tab.getByText('converged').waitFor();
  await showTable(tab);
  const rows = tab.locator('.node-table tbody tr');
  await until('the map has nodes', async () => (await rows.count()) >= 3);
  await rows.first().getByRole('button').click();
  const panel = tab.getByRole('complementary');
  await panel.getByText('Processor').waitFor();
  await panel.getByRole('button', { name: 'Graph' }).click();
  await panel.getByText('face').first().waitFor();
  for (const theme of ['light', 'dark']) {
    await tab.getByLabel('Colours').selectOption(theme);
    await new Promise((go) => setTimeout(go, 500));
    await screenshot(tab, `network-map-${theme}`);
  }
  assert.deepEqual(faults, []);
});

test('service_that_is_killed_is_shown_and_comes_back', { skip }, async (t) => {
  const { tab } = await openPage(t);
  await showTable(tab);
  const graph = JSON.parse(await nw('network', 'show', ...network, folder, '--json'));
  const victim = graph.instances.find(({ pid }) => pid);
  process.kill(victim.pid, 'SIGKILL');
  const row = tab.locator('.node-table tbody tr', { hasText: victim.name });
  await row
    .getByText(/failed|needs a look/)
    .first()
    .waitFor({ timeout: 5000 });
  await row
    .getByText(/works|idle/)
    .first()
    .waitFor({ timeout: 20_000 });
  await tab.getByRole('tab', { name: 'Events' }).click();
  await tab.getByText('instance ended').first().waitFor();
});

test('document_draft_is_checked_planned_applied_and_undone', { skip }, async (t) => {
  const { tab } = await openPage(t);
  await tab.getByRole('tab', { name: 'Document' }).click();
  const draft = tab.getByLabel('Draft of the document');
  const text = await draft.inputValue();
  await draft.fill(`${text}\nnonsense here\n`);
  await tab
    .getByRole('alert')
    .getByText(/nonsense/)
    .waitFor();
  assert.ok(
    await tab.getByRole('button', { name: 'Apply' }).isDisabled(),
    'mistakes are not applied',
  );
  await tab.getByRole('button', { name: 'Undo', exact: true }).click();
  await until('the draft is as before', async () => (await draft.inputValue()) === text);
  await draft.fill(`# A remark of this test.\n${text}`);
  await tab.getByLabel('Changed lines').getByText('A remark of this test').waitFor();
  await tab.getByText('What would change').waitFor();
  await screenshot(tab, 'network-document-light');
  await tab.getByRole('button', { name: 'Apply' }).click();
  await tab.getByText('The document is in effect').waitFor();
  await tab.getByRole('tab', { name: 'History' }).click();
  await tab.getByText('2 (in effect)').waitFor();
});

test('network_views_have_no_serious_accessibility_finding', { skip }, async (t) => {
  const { require } = await import('./harness.mjs');
  const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
  const { tab } = await openPage(t, { bypassCSP: true });
  for (const view of ['Map', 'Plan', 'Document', 'Services', 'Routes', 'Events', 'History']) {
    await tab.getByRole('tab', { name: view, exact: true }).click();
    await new Promise((go) => setTimeout(go, 300));
    await tab.evaluate(axe);
    const { violations } = await tab.evaluate(() =>
      globalThis.axe.run(document, { resultTypes: ['violations'] }),
    );
    const serious = violations.filter(
      ({ impact }) => impact === 'serious' || impact === 'critical',
    );
    assert.deepEqual(
      serious.map(({ id, nodes }) => `${id}: ${nodes[0].html}`),
      [],
      view,
    );
  }
});

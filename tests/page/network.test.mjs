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
  nodePlaces,
  NW,
  openTab,
  overflowOfPhone,
  root,
  screenshot,
  startBrowser,
  until,
  walkByKeyboard,
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
  // On a phone a chain runs from top to bottom, and back to the side on a screen.
  await panel.getByRole('button', { name: 'Close details' }).click();
  const canvas = tab.getByRole('application');
  const sides = async () => {
    const places = await nodePlaces(canvas);
    return [0, 1].map((at) => {
      const along = places.map((place) => place[at]);
      return Math.max(...along) - Math.min(...along);
    });
  };
  const isLonger = (first, second) => async () => {
    const both = await sides();
    return both[first] > both[second];
  };
  await tab.setViewportSize({ width: 390, height: 800 });
  await until('the chain is upright', isLonger(1, 0));
  await screenshot(tab, 'network-map-phone');
  await tab.setViewportSize({ width: 1280, height: 860 });
  await until('the chain lies', isLonger(0, 1));
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

test('drawing_and_text_are_edited_side_by_side', { skip }, async (t) => {
  const { tab, faults } = await openPage(t);
  await tab.getByRole('tab', { name: 'Document' }).click();
  const draft = tab.getByLabel('Draft of the document');
  const text = await draft.inputValue();
  const tools = tab.locator('.drawing-tools');
  const drawing = tab.getByRole('region', { name: 'Drawing' });
  const textBecomes = (what, check) =>
    until(what, async () => check(await draft.inputValue()), 10_000);
  await drawing.getByRole('button', { name: 'Element cs, content_store' }).waitFor();

  await tools.getByLabel('Add').selectOption('name_filter');
  await tools.getByLabel('called').fill('nf');
  await tools.getByRole('button', { name: 'Add' }).click();
  await textBecomes('the element is in the text', (now) => now.includes('\nnf = name_filter\n'));
  const box = drawing.getByRole('button', { name: /^Element nf/ });
  await box.waitFor();
  // The new element has no connection yet: the mistake is at its place, in drawing and list.
  await drawing.locator('.faulty', { hasText: 'nf' }).waitFor();
  await tab.getByText('Mistakes').waitFor();
  assert.ok(await tab.getByRole('button', { name: 'Apply' }).isDisabled());

  // A connection is removed by the keyboard; one is made by it, and one with the pointer.
  await drawing.getByRole('button', { name: 'Connection pd.interest to cs.interest' }).focus();
  await tab.keyboard.press('Delete');
  await textBecomes('the connection is gone', (now) => !now.includes('pd.interest -> cs.interest'));
  await drawing.getByRole('button', { name: 'Connection pd.interest to cs' }).waitFor({ state: 'detached' });
  const connect = async (output, input, byKeyboard) => {
    const end = (name) => drawing.getByRole('button', { name, exact: true });
    await (byKeyboard ? end(`Output ${output}`).press('Enter') : end(`Output ${output}`).click());
    await tab.getByText('choose an input').waitFor();
    await (byKeyboard ? end(`Input ${input}`).press('Enter') : end(`Input ${input}`).click());
    await textBecomes('the connection is there', (now) => now.includes(`${output} -> ${input}`));
    await drawing.getByRole('button', { name: `Connection ${output} to ${input}` }).waitFor();
  };
  await connect('pd.interest', 'nf.packet', true);
  await connect('nf.passed', 'cs.interest', false);
  const before = await draft.inputValue();
  const added = before.split('\n').filter((line) => !text.split('\n').includes(line));
  assert.deepEqual(added, ['nf = name_filter', 'pd.interest -> nf.packet', 'nf.passed -> cs.interest']);

  // The element joins a service; then all is undone, step by step, and done again.
  await box.click();
  await tab.locator('.selected-part').getByLabel('Service').selectOption('front');
  await textBecomes('it is in the service', (now) => now.includes('service front { pd, cs, nf }'));
  await screenshot(tab, 'drawing-light');
  await tab.getByLabel('Colours').selectOption('dark');
  await screenshot(tab, 'drawing-dark');
  await tab.getByRole('button', { name: 'Undo', exact: true }).click();
  assert.equal(await draft.inputValue(), before);
  await tab.getByRole('button', { name: 'Redo', exact: true }).click();
  await textBecomes('it is done again', (now) => now.includes('service front { pd, cs, nf }'));
  await tab.getByText('What would change').waitFor();
  await tab.getByRole('button', { name: 'Apply' }).click();
  await tab.getByText('The document is in effect').waitFor();
  await until('the filter runs', async () => {
    const shown = JSON.parse(await nw('network', 'show', ...network, folder, '--json'));
    const front = shown.instances.filter(({ service }) => service === 'front');
    return front.some(({ elements }) => elements.some(({ name }) => name === 'nf'));
  }, 20_000);

  await drawing.getByRole('button', { name: /^Element nf/ }).click();
  await tab.getByRole('button', { name: 'Remove nf' }).click();
  await textBecomes('it is removed', (now) => !now.includes('nf'));
  await tab.getByRole('button', { name: 'Discard the draft' }).click();
  assert.deepEqual(faults, []);
});

test('dragged_node_stays_where_it_was_put', { skip }, async (t) => {
  const { tab } = await openPage(t);
  const positions = async () => {
    const shown = JSON.parse(await nw('network', 'show', ...network, folder, '--json'));
    return shown.instances.filter(({ position }) => position.fixed);
  };
  const canvas = tab.getByRole('application');
  await canvas.waitFor();
  await new Promise((go) => setTimeout(go, 1000));
  const area = await canvas.boundingBox();
  const places = await nodePlaces(canvas);
  // The node in the middle is an instance, whose place the manager keeps.
  const distance = ([x]) => Math.abs(x - area.width / 2);
  const [x, y] = places.sort((a, b) => distance(a) - distance(b))[0];
  await tab.mouse.move(area.x + x, area.y + y);
  await tab.mouse.down();
  await tab.mouse.move(area.x + x + 40, area.y + y + 30, { steps: 4 });
  await tab.mouse.up();
  const found = await until('the place is kept', async () => (await positions())[0]);
  await tab.reload();
  await tab.getByText('● live').waitFor();
  const kept = (await positions()).find(({ name }) => name === found.name);
  assert.deepEqual(kept.position, found.position);
  await tab.getByRole('button', { name: 'Arrange' }).click();
  await until('places are the computed ones', async () => (await positions()).length === 0);
});

/** Runs a command that sends packets into the network until the test ends. */
function spawnClient(t, socket, ...args) {
  const environment = { ...process.env, NDN_CLIENT_TRANSPORT: `unix://${socket}` };
  const child = spawn(NW, args, { env: environment, stdio: 'ignore' });
  t.after(() => child.kill());
}

test('tap_of_an_instance_shows_its_packets_and_their_elements', { skip }, async (t) => {
  const { tab, faults } = await openPage(t);
  await showTable(tab);
  await tab.locator('.node-table tbody').getByRole('button', { name: /^front/ }).click();
  await tab.getByRole('button', { name: 'Tap its packets' }).click();
  const chosen = tab.getByLabel('Instance');
  await chosen.waitFor();
  assert.match(await chosen.inputValue(), /^front~1 on here/);
  await tab.getByRole('button', { name: 'Start tap' }).click();
  await tab.getByText(/packets. The last/).waitFor();
  spawnClient(t, join(folder, 'nw-network-chain.sock'), 'ping', '/tapped', '--interval', '50');
  const packets = tab.locator('#packets tbody tr');
  await packets.filter({ hasText: '/tapped/ping/' }).first().waitFor();
  await packets.getByRole('button').first().hover();
  await tab.getByText('The list waits while you point at it').waitFor();
  await packets.getByRole('button').first().click();
  await tab.locator('#inspector').getByText('Nonce').waitFor();
  await screenshot(tab, 'network-tap-light');
  await tab.getByRole('button', { name: 'Stop' }).click();
  await tab.getByText('The tap is stopped').waitFor();
  assert.deepEqual(faults, []);
});

test('tap_of_an_element_inside_shows_its_ports', { skip }, async (t) => {
  const { tab, faults } = await openPage(t);
  await showTable(tab);
  await tab.locator('.node-table tbody').getByRole('button', { name: /^front/ }).click();
  await tab.getByText('cs: content store').click();
  await tab.getByRole('button', { name: 'Tap outputs of cs' }).click();
  const place = tab.getByLabel(/^At /);
  await place.waitFor();
  assert.equal(await place.inputValue(), 'cs');
  assert.equal(await tab.getByLabel('Direction').count(), 0, 'ports have no direction');
  await tab.getByRole('button', { name: 'Start tap' }).click();
  await tab.getByText(/packets. The last/).waitFor();
  spawnClient(t, join(folder, 'nw-network-chain.sock'), 'ping', '/inside', '--interval', '50');
  const packets = tab.locator('#packets tbody tr').filter({ hasText: '/inside/ping/' });
  await packets.filter({ hasText: 'cs.miss' }).first().waitFor();
  await tab.getByLabel(/^Port /).selectOption('cs.miss');
  await packets.getByRole('button').first().click();
  await tab.locator('#inspector').getByText('Nonce').waitFor();
  await place.selectOption('');
  await tab.getByText('The tap is stopped').waitFor();
  await tab.getByLabel('Direction').waitFor();
  assert.deepEqual(faults, []);
});

test('keys_rules_and_tokens_are_added_shown_and_removed', { skip }, async (t) => {
  const { tab, faults } = await openPage(t);
  await tab.getByRole('tab', { name: 'Access' }).click();
  const card = (name) => tab.locator('.card', { has: tab.getByRole('heading', { name }) });
  const rules = card('Rules');
  await rules.getByLabel('Names').fill('/site/<who>/<..>');
  await rules.getByLabel('Keys').fill('/site/<who>/KEY/<_>');
  await rules.getByRole('button', { name: 'Add rule' }).click();
  await rules.getByText('The rule is in effect').waitFor();
  await rules.getByRole('cell', { name: '/site/<who>/KEY/<_>' }).waitFor();
  await rules.getByRole('button', { name: /^Remove the rule/ }).click();
  await rules.getByRole('button', { name: /^Confirm/ }).click();
  await rules.getByText('The rule is removed').waitFor();

  const keys = card('Keys');
  await keys.getByText('Add a key').click();
  await keys.getByRole('textbox').fill('no certificate');
  await keys.getByRole('button', { name: 'Add key' }).click();
  await keys.getByRole('alert').getByText(/./).waitFor();

  const tokens = card('Tokens');
  await tokens.getByLabel('Name').fill('monitoring');
  await tokens.getByRole('button', { name: 'Make token' }).click();
  const text = await tokens.locator('.made pre').innerText();
  assert.ok(text.length >= 16, text);
  await tokens.getByRole('cell', { name: 'monitoring', exact: true }).waitFor();
  await screenshot(tab, 'network-access-light');
  await tokens.getByRole('button', { name: 'Done' }).click();
  await tab.reload();
  await tokens.getByRole('cell', { name: 'monitoring', exact: true }).waitFor();
  assert.ok(!(await tab.content()).includes(text), 'a token is shown once only');
  await tokens.getByRole('button', { name: 'Remove the token monitoring' }).click();
  await tokens.getByRole('button', { name: /^Confirm/ }).click();
  await tokens.getByText('The token monitoring is void').waitFor();
  await card('Who asked for what').getByText('token add monitoring').waitFor();
  // The browser itself reports the refused certificate.
  assert.deepEqual(faults.filter((fault) => !fault.includes('status of 4')), []);
});

test('route_of_a_person_is_added_shown_with_its_author_and_removed', { skip }, async (t) => {
  const { tab, faults } = await openPage(t);
  await tab.getByRole('tab', { name: 'Routes' }).click();
  await tab.getByLabel('Prefix').fill('/by/a/person');
  await tab.getByLabel('leads to').selectOption('nr.producer');
  await tab.getByRole('button', { name: 'Add route' }).click();
  const row = tab.locator('tr', { hasText: '/by/a/person' });
  await row.getByText(', by the page').waitFor({ timeout: 20_000 });
  await row.getByRole('button', { name: 'Remove the route /by/a/person' }).click();
  await row.getByRole('button', { name: /^Confirm/ }).click();
  await row.waitFor({ state: 'detached', timeout: 20_000 });
  assert.deepEqual(faults, []);
});

test('network_views_are_accessible_and_walked_by_keyboard', { skip }, async (t) => {
  const { require } = await import('./harness.mjs');
  const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
  const { tab } = await openPage(t, { bypassCSP: true });
  const views = ['Map', 'Plan', 'Document', 'Services', 'Decisions', 'Routes', 'Tap', 'Events'];
  for (const [theme, view] of ['light', 'dark'].flatMap((theme) =>
    [...views, 'History', 'Access'].map((view) => [theme, view]),
  )) {
    await tab.getByLabel('Colours').selectOption(theme);
    await tab.getByRole('tab', { name: view, exact: true }).click();
    await new Promise((go) => setTimeout(go, 300));
    if (view === 'Document') await tab.locator('.drawing').waitFor();
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
      `${view}, ${theme}`,
    );
    if (theme === 'dark') continue;
    assert.deepEqual(await walkByKeyboard(tab), [], view);
    assert.equal(await overflowOfPhone(tab), 0, `${view} is wider than a phone`);
  }
});

// Makes the images of docs/guide/page.md anew: NW_BIN=… node tests/page/guide.mjs
//
// Real programs with real traffic: a router, and the campus of examples/networks (its ports must be
// free). With a folder as argument, the images go there.
import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort, NW, root, Router, startBrowser, until } from './harness.mjs';

const target = process.argv[2] ?? join(root, 'docs/guide/images');
const folder = mkdtempSync(join(tmpdir(), 'nw-guide-'));
const children = [];
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const nw = async (...args) => (await promisify(execFile)(NW, args)).stdout;

/** Starts a command of `nw` that runs until the end, with a router or an entry of a network. */
function start(socket, ...args) {
  const environment = { ...process.env, NDN_CLIENT_TRANSPORT: `unix://${socket}` };
  const child = spawn(NW, args, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  child.printed = '';
  child.stdout.on('data', (part) => (child.printed += part));
  child.stderr.on('data', (part) => (child.printed += part));
  children.push(child);
  return child;
}

async function end(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((done) => child.once('exit', done));
  child.kill(signal);
  await ended;
}

async function openPage(browser, url) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 760 } });
  const tab = await context.newPage();
  await tab.goto(url.trim());
  await tab.getByText('● live').waitFor();
  const view = (name) => tab.getByRole('tab', { name, exact: true }).click();
  const image = async (name) => {
    await tab.evaluate(() => scrollTo(0, 0));
    await tab.screenshot({ path: join(target, `page-${name}.png`) });
  };
  return { tab, view, image };
}

/** Taps what is shown, and looks into the first packet. */
async function tapFirst(tab) {
  await tab.getByRole('button', { name: 'Start tap' }).click();
  const packet = tab.locator('#packets tbody button').first();
  await packet.waitFor();
  await wait(1000);
  await tab.getByRole('button', { name: 'Stop' }).click();
  await packet.click();
}

async function imagesOfRouter(browser) {
  const router = await Router.start();
  try {
    const run = (...args) => start(router.socket, ...args);
    ['/film', '/weather'].forEach((name) => run('ping-server', name));
    await until('the servers are registered', async () =>
      (await router.nw('route', 'list')).includes('/weather'),
    );
    ['/film', '/weather'].forEach((name) => run('ping', name, '--interval', '10'));
    const { tab, view, image } = await openPage(browser, await router.nw('open', '--print'));
    await wait(20_000);
    await image('overview');
    await view('Tap');
    await tab.getByLabel('Prefix').fill('/film');
    await tapFirst(tab);
    await image('tap');
  } finally {
    await router.remove();
  }
}

async function startProducer(name) {
  const socket = join(folder, `nw-campus-${name}.sock`);
  const config = join(folder, `${name}.toml`);
  const [tcp, udp] = [await freePort(), await freePort()];
  writeFileSync(
    config,
    `[faces.unix]\npath = "${socket}"\n[faces.udp]\nlisten = ["127.0.0.1:${udp}"]\n` +
      `[faces.tcp]\nlisten = ["127.0.0.1:${tcp}"]\n`,
  );
  const router = start(socket, 'run', '-c', config);
  await until(`the producer ${name} runs`, () => router.printed.includes(' running '));
  start(socket, 'ping-server', `/campus/${name}`);
}

async function imagesOfNetwork(browser) {
  const graph = join(folder, 'campus.graph');
  const text = readFileSync(join(root, 'examples/networks/campus.graph'), 'utf8');
  writeFileSync(graph, text.replaceAll('unix:///tmp/', `unix://${folder}/`));
  await startProducer('archive');
  await startProducer('experiments');
  const network = ['--name', 'campus', '--directory', folder];
  const page = `127.0.0.1:${await freePort()}`;
  const manager = start('', 'network', 'up', graph, ...network, '--page', page);
  try {
    const shows = async (word) =>
      (await nw('network', 'show', ...network, '--json').catch(() => '')).includes(word);
    await until('the network is as described', () => shows('"converged"'), 60_000);
    const [library, laboratory] = ['library', 'laboratory'].map((site) =>
      join(folder, `nw-campus-${site}.sock`),
    );
    start(library, 'ping', '/campus/archive', '--interval', '5');
    start(library, 'ping', '/campus/experiments', '--interval', '8');
    start(laboratory, 'ping', '/campus/archive', '--interval', '9');
    await nw('network', 'scale', ...network, 'br1', '2');
    await until('the clone runs', () => shows('"br1~2"'), 30_000);
    const url = await nw('open', '--print', '--network', 'campus', '--directory', folder);
    const { tab, view, image } = await openPage(browser, url);
    await wait(15_000);
    await image('network');
    await tab.locator('.node-table summary').click();
    await tab.locator('.node-table tbody').getByRole('button', { name: /^nr1/ }).click();
    await wait(1500);
    await image('network-panel');
    await tab.getByRole('button', { name: 'Tap its packets' }).click();
    await tapFirst(tab);
    await image('network-tap');
    await view('Document');
    await tab.locator('.drawing').waitFor();
    await wait(500);
    await image('drawing');
  } finally {
    await end(manager, 'SIGINT');
  }
}

mkdirSync(target, { recursive: true });
const browser = await startBrowser();
try {
  await imagesOfRouter(browser);
  await imagesOfNetwork(browser);
} finally {
  await Promise.all(children.map((child) => end(child, 'SIGTERM')));
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}

// What the browser tests share: a router with a page, and Chromium.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const root = join(import.meta.dirname, '../..');
export const require = createRequire(join(root, 'page/package.json'));
const { chromium } = require('playwright-core');

export const NW = process.env.NW_BIN;
export const TOKEN = 'a token of this test alone';
const SCREENSHOTS = join(root, 'target/page-screenshots');

export const CHROMIUM = ['chromium', 'chromium-browser', 'google-chrome']
  .flatMap((name) => (process.env.PATH ?? '').split(':').map((folder) => join(folder, name)))
  .find((path) => existsSync(path));

export function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

export async function until(what, check, timeoutMs = 10_000) {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await new Promise((go) => setTimeout(go, 30));
  }
}

/** A router started by this test, with its own folder and a page. */
export class Router {
  /** Another program may take a free port before the router does: then others are tried. */
  static async start() {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await Router.startOnce();
      } catch (error) {
        if (attempt === 3) throw error;
        console.log(`${error.message}: started again with other ports`);
      }
    }
  }

  static async startOnce() {
    const router = new Router();
    router.folder = mkdtempSync(join(tmpdir(), 'nw-page-'));
    [router.tcp, router.udp, router.port] = [await freePort(), await freePort(), await freePort()];
    router.socket = join(router.folder, 'r.sock');
    writeFileSync(join(router.folder, 'token'), `${TOKEN}\n`, { mode: 0o600 });
    writeFileSync(
      join(router.folder, 'r.toml'),
      `[faces.unix]\npath = "${router.socket}"\n[faces.udp]\nlisten = ["127.0.0.1:${router.udp}"]\n` +
        `[faces.tcp]\nlisten = ["127.0.0.1:${router.tcp}"]\n` +
        `[pubsub]\nenabled = true\ndomain = false\n[page]\nlisten = ["127.0.0.1:${router.port}"]\ntoken_file = "${join(router.folder, 'token')}"\n`,
    );
    await router.run();
    return router;
  }

  async run() {
    this.process = spawn(NW, ['run', '-c', join(this.folder, 'r.toml')], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let log = '';
    this.process.stderr.on('data', (text) => (log += text));
    await until('the router runs', () => {
      if (this.process.exitCode !== null || this.process.signalCode !== null)
        throw new Error(`the router ended with ${this.process.exitCode}: ${log}`);
      return log.includes(' running ');
    });
  }

  get origin() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Runs a command of `nw` with this router. Returns its output. */
  async nw(...args) {
    const environment = {
      ...process.env,
      NDN_CLIENT_TRANSPORT: `unix://${this.socket}`,
    };
    return (await promisify(execFile)(NW, args, { env: environment })).stdout;
  }

  /** Starts a command of `nw` that runs until the test ends. */
  spawn(t, ...args) {
    const environment = {
      ...process.env,
      NDN_CLIENT_TRANSPORT: `unix://${this.socket}`,
    };
    const child = spawn(NW, args, { env: environment, stdio: 'ignore' });
    t.after(() => child.kill());
    return child;
  }

  async end() {
    if (this.process.exitCode === null) {
      const ended = new Promise((done) => this.process.once('exit', done));
      this.process.kill();
      await ended;
    }
  }

  async remove() {
    await this.end();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export const startBrowser = (path = CHROMIUM) =>
  chromium.launch({
    executablePath: path,
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  });

/** Opens a tab whose errors, and requests to anywhere else, fail the test. */
export async function openTab(browser, origin, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 860 },
    ...options,
  });
  const tab = await context.newPage();
  const faults = [];
  tab.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
  tab.on('pageerror', (error) => faults.push(String(error)));
  tab.on('request', (request) => {
    if (origin && !request.url().startsWith(origin)) faults.push(`a request to ${request.url()}`);
  });
  return { tab, context, faults };
}

export async function screenshot(tab, name) {
  mkdirSync(SCREENSHOTS, { recursive: true });
  await tab.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
}

/** Returns by how many pixels a page is wider than a phone. */
export async function overflowOfPhone(tab) {
  const before = tab.viewportSize();
  await tab.setViewportSize({ width: 390, height: 800 });
  const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await tab.setViewportSize(before);
  return Math.max(0, overflow);
}

/** Returns places of a map's canvas where the pointer is over a node. */
export const nodePlaces = (canvas) =>
  canvas.evaluate((element) => {
    const box = element.getBoundingClientRect();
    const found = [];
    for (let y = 20; y < box.height; y += 10)
      for (let x = 20; x < box.width; x += 10) {
        const place = { clientX: box.left + x, clientY: box.top + y };
        element.dispatchEvent(new PointerEvent('pointermove', place));
        if (element.style.cursor === 'pointer') found.push([x, y]);
      }
    return found;
  });

/**
 * Walks through a page by the Tab key. Returns what is wrong: an element that is not reached, one
 * whose focus cannot be seen, and a place that the focus does not leave.
 */
export async function walkByKeyboard(tab) {
  const steps = await tab.evaluate(() => {
    const look = (element) =>
      [element, ...[...element.children].slice(0, 4)]
        .map((part) => getComputedStyle(part))
        .map(({ outline, boxShadow, borderColor, stroke, fill }) =>
          [outline, boxShadow, borderColor, stroke, fill].join(),
        )
        .join();
    const isShown = (element) =>
      element.checkVisibility() &&
      (!element.closest('details:not([open])') || element.matches('summary'));
    const selector = 'a[href], button, input, select, textarea, summary, [tabindex]';
    const wanted = [...document.querySelectorAll(selector)].filter(
      (element) => element.tabIndex >= 0 && !element.disabled && isShown(element),
    );
    document.activeElement?.blur();
    getSelection().setPosition(document.body, 0);
    const walk = { wanted: new Map(wanted.map((element) => [element, look(element)])) };
    Object.assign(walk, { reached: new Set(), unseen: new Set(), again: 0 });
    walk.onFocus = ({ target }) => {
      if (walk.reached.has(target)) walk.again += 1;
      walk.reached.add(target);
      if (look(target) === walk.wanted.get(target)) walk.unseen.add(target);
    };
    addEventListener('focusin', walk.onFocus);
    globalThis.walk = walk;
    return wanted.length;
  });
  // The walk may start at the last click, leaves the page at its end, and meets what is new: a
  // second round reaches what the first one passed by.
  for (let step = 0; step < 2 * steps + 8; step += 1) await tab.keyboard.press('Tab');
  return tab.evaluate(() => {
    const { wanted, reached, unseen, again, onFocus } = globalThis.walk;
    removeEventListener('focusin', onFocus);
    const name = (element) => element.outerHTML.slice(0, 160);
    const isThere = (element) => element.isConnected && !element.disabled;
    const missed = [...wanted.keys()].filter((one) => isThere(one) && !reached.has(one));
    return [
      ...missed.map((element) => `not reached: ${name(element)}`),
      ...[...unseen].map((element) => `no visible focus: ${name(element)}`),
      ...(missed.length > 0 && again > 0 ? [`${again} elements had the focus twice`] : []),
    ];
  });
}

export { execFileSync };

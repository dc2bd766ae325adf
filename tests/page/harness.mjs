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
  static async start() {
    const router = new Router();
    router.folder = mkdtempSync(join(tmpdir(), 'nw-page-'));
    [router.tcp, router.udp, router.port] = [await freePort(), await freePort(), await freePort()];
    router.socket = join(router.folder, 'r.sock');
    writeFileSync(join(router.folder, 'token'), `${TOKEN}\n`, { mode: 0o600 });
    writeFileSync(
      join(router.folder, 'r.toml'),
      `[faces.unix]\npath = "${router.socket}"\n[faces.udp]\nlisten = ["127.0.0.1:${router.udp}"]\n` +
        `[faces.tcp]\nlisten = ["127.0.0.1:${router.tcp}"]\n` +
        `[page]\nlisten = ["127.0.0.1:${router.port}"]\ntoken_file = "${join(router.folder, 'token')}"\n`,
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
      if (this.process.exitCode !== null) throw new Error(`the router ended: ${log}`);
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

export { execFileSync };

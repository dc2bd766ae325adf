// The page of a router in Chromium: what a person sees and does, and what others cannot do.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import test, { after, before } from 'node:test';
import {
  CHROMIUM,
  freePort,
  openTab,
  overflowOfPhone,
  require,
  Router,
  screenshot,
  startBrowser,
  TOKEN,
  until,
  walkByKeyboard,
} from './harness.mjs';

const skip = CHROMIUM ? false : 'no chromium here (tools/setup test installs it)';
let [router, browser] = [];

before(async () => {
  if (skip) return;
  // One after the other: a browser whose router fails is closed nevertheless.
  browser = await startBrowser();
  router = await Router.start();
});
after(async () => {
  await browser?.close();
  await router?.remove();
});

/** Opens the page by the URL of `nw open`. */
async function openPage(t, options) {
  const url = (await router.nw('open', '--print')).trim();
  const opened = await openTab(browser, router.origin, options);
  t.after(() => opened.context.close());
  await opened.tab.goto(url);
  await opened.tab.getByRole('tab', { name: 'Overview' }).waitFor();
  await opened.tab.getByText('● live').waitFor();
  return opened;
}

const openView = async (tab, name) => {
  await tab.getByRole('tab', { name, exact: true }).click();
};

test('page_opened_by_ticket_shows_the_router_and_the_first_steps', { skip }, async (t) => {
  const { tab, faults } = await openPage(t);
  await tab.getByText('three commands to begin with').waitFor();
  assert.equal(new URL(tab.url()).hash, '', 'the ticket is removed from the address');
  await openView(tab, 'Faces');
  await openView(tab, 'Log');
  await tab.getByText('running version=').waitFor();
  await tab.reload();
  await tab.getByText('● live').waitFor();
  assert.deepEqual(faults, []);
});

test('face_route_and_strategy_are_created_shown_and_removed', { skip }, async (t) => {
  const { tab, faults } = await openPage(t);
  const peer = `udp4://127.0.0.1:${await freePort()}`;
  await openView(tab, 'Faces');
  await tab.getByLabel('Remote URI').fill(peer);
  await tab.getByRole('button', { name: 'Create face' }).click();
  await tab.getByText(/^Face \d+ to udp4:.* is created/).waitFor();
  await tab.locator('#faces').getByText(peer).waitFor();
  assert.ok((await router.nw('face', 'list')).includes(peer));

  await openView(tab, 'Routes');
  await tab.getByLabel('Prefix').fill('/page/test');
  const face = tab.locator('#route-face option', { hasText: peer });
  await tab.locator('#route-face').selectOption(await face.getAttribute('value'));
  await tab.getByRole('button', { name: 'Set route' }).click();
  const row = tab.locator('#routes tr', { hasText: '/page/test' });
  await row.waitFor();
  assert.ok((await router.nw('route', 'list')).includes('/page/test'));
  await row.getByRole('button', { name: /^Remove/ }).click();
  await row.getByRole('button', { name: /^Confirm/ }).click();
  await row.waitFor({ state: 'detached' });
  assert.ok(!(await router.nw('route', 'list')).includes('/page/test'));

  await openView(tab, 'Strategies');
  await tab.getByLabel('Prefix').fill('/page');
  await tab.getByRole('combobox', { name: 'Strategy' }).fill('multicast');
  await tab.getByRole('button', { name: 'Set strategy' }).click();
  await tab.locator('#strategy-choices tr', { hasText: '/page' }).getByText('multicast').waitFor();

  await openView(tab, 'Faces');
  await tab.getByLabel('Remote URI').fill('udp4://not an address');
  await tab.getByRole('button', { name: 'Create face' }).click();
  await tab.getByRole('alert').getByText(/./).waitFor();
  // The browser itself reports the refused request on its console.
  assert.deepEqual(
    faults.filter((fault) => !fault.includes('the server responded with a status of')),
    [],
  );
});

test('change_by_another_program_is_shown_within_a_second', { skip }, async (t) => {
  const { tab } = await openPage(t);
  await openView(tab, 'Routes');
  const peer = `udp4://127.0.0.1:${await freePort()}`;
  await router.nw('route', 'add', '/within/a/second', peer);
  const started = Date.now();
  await tab.locator('#routes').getByText('/within/a/second').waitFor({ timeout: 5000 });
  const took = Date.now() - started;
  console.log(`a route of another program is shown after ${took} ms`);
  assert.ok(took <= 1000, `${took} ms`);
});

test('router_that_ends_is_shown_as_lost_and_comes_back', { skip }, async (t) => {
  const own = await Router.start();
  t.after(() => own.remove());
  const { tab, context } = await openTab(browser, own.origin);
  t.after(() => context.close());
  await tab.goto((await own.nw('open', '--print')).trim());
  await tab.getByText('● live').waitFor();
  await own.end();
  await tab.getByText('no answer, trying again').waitFor();
  await own.run();
  // Sessions do not outlive the program: the page asks for a login again.
  await tab.getByLabel('Token').waitFor();
});

test('trace_shows_why_an_interest_went_where_it_did', { skip }, async (t) => {
  const { tab, faults } = await openPage(t);
  router.spawn(t, 'ping-server', '/traced');
  await until('the server is registered', async () =>
    (await router.nw('route', 'list')).includes('/traced'),
  );
  await openView(tab, 'Trace');
  await tab.getByLabel('Prefix').fill('/traced');
  await tab.getByRole('button', { name: 'Start trace' }).click();
  await tab.getByText('waiting for packets').waitFor();
  await router.nw('ping', '/traced', '--count', '1');
  const decisions = tab.locator('#trace');
  await decisions.getByText('content store', { exact: true }).first().waitFor();
  await decisions.getByText('fib', { exact: true }).first().waitFor();
  await screenshot(tab, 'trace-light');
  await tab.getByRole('button', { name: 'Stop' }).click();
  await tab.getByText('The trace is stopped.').waitFor();
  assert.deepEqual(faults, []);
});

test('tap_shows_packets_and_the_inspector_their_elements', { skip }, async (t) => {
  const { tab, faults } = await openPage(t);
  router.spawn(t, 'ping-server', '/tapped');
  await until('the server is registered', async () =>
    (await router.nw('route', 'list')).includes('/tapped'),
  );
  await openView(tab, 'Tap');
  await tab.getByLabel('Prefix').fill('/tapped');
  await tab.getByRole('button', { name: 'Start tap' }).click();
  await tab.getByText('0 packets.').waitFor();
  await router.nw('ping', '/tapped', '--count', '2');
  const row = tab.locator('#packets tr', { hasText: 'Data' }).first();
  await row.getByRole('button').click();
  await tab.locator('#inspector').getByText('SignatureInfo').first().waitFor();
  await screenshot(tab, 'tap-light');
  assert.deepEqual(faults, []);
});

test('login_needs_the_right_token', { skip }, async (t) => {
  const { tab, context } = await openTab(browser, router.origin);
  t.after(() => context.close());
  await tab.goto(router.origin);
  await tab.getByLabel('Token').fill('a wrong token');
  await tab.getByRole('button', { name: 'Log in' }).click();
  await tab.getByRole('alert').getByText('the token is wrong').waitFor();
  assert.deepEqual(await context.cookies(), []);
  await tab.getByLabel('Token').fill(TOKEN);
  await tab.getByRole('button', { name: 'Log in' }).click();
  await tab.getByText('● live').waitFor();
  const [cookie] = await context.cookies();
  assert.equal(cookie.httpOnly, true);
  assert.equal(cookie.sameSite, 'Strict');
  assert.equal(await tab.evaluate(() => document.cookie), '', 'scripts cannot read the session');
  await tab.getByRole('button', { name: 'Log out' }).click();
  await tab.getByLabel('Token').waitFor();
  assert.deepEqual(await context.cookies(), []);
});

test('request_without_the_csrf_header_is_refused', { skip }, async (t) => {
  const { tab } = await openPage(t);
  const codes = await tab.evaluate(async () => {
    const body = JSON.stringify({ uri: 'udp4://203.0.113.7:6363' });
    const send = (headers) =>
      fetch('/v1/faces', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', ...headers },
        body,
      });
    const right = localStorage.getItem('nw-csrf');
    return [
      (await send({})).status,
      (
        await send({
          'X-NW-CSRF': right.replace(/^./, (first) => (first === '0' ? '1' : '0')),
        })
      ).status,
      (await fetch('/v1/faces')).status,
      (await send({ 'X-NW-CSRF': right })).status,
    ];
  });
  assert.deepEqual(codes, [403, 403, 403, 201]);
});

test('page_of_another_origin_can_do_nothing', { skip }, async (t) => {
  const { tab, context } = await openPage(t);
  // The session is there, and another program serves a page in the same browser: on another port
  // of the same address (same site, so the cookie is sent), and under another name.
  const csrf = await tab.evaluate(() => localStorage.getItem('nw-csrf'));
  const cookies = [];
  const evil = createServer((request, response) => {
    cookies.push(request.headers.cookie ?? '');
    response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>evil</title>');
  });
  await new Promise((done) => evil.listen(0, '127.0.0.1', done));
  t.after(() => evil.close());
  for (const host of ['127.0.0.1', 'localhost']) {
    const page = await context.newPage();
    await page.goto(`http://${host}:${evil.address().port}/`);
    const outcomes = await page.evaluate(attempt, {
      origin: router.origin,
      csrf,
    });
    assert.deepEqual(
      outcomes.filter(({ read }) => read),
      [],
      `${host}: no answer can be read`,
    );
    assert.ok(outcomes.length >= 7, 'each attempt was made');
    assert.equal(await page.evaluate(() => localStorage.getItem('nw-csrf')), null);
    const framed = await page.evaluate(frame, router.origin);
    assert.equal(framed, 'refused', `${host}: the page cannot be framed`);
    await page.close();
  }
  // A stolen cookie alone opens nothing: that a program of another port received it is no harm.
  const stolen = cookies.find((cookie) => cookie.includes('nw_session')) ?? '';
  assert.ok(stolen, 'browsers do not separate cookies by port, so the test is a real one');
  const answer = await fetch(`${router.origin}/v1/faces`, {
    headers: { Cookie: stolen },
  });
  assert.equal(answer.status, 403);
  assert.ok(!(await router.nw('face', 'list')).includes('203.0.113.66'));
  assert.ok(!(await router.nw('route', 'list')).includes('/bank'));
});

/** Runs in a foreign page. Even the session's CSRF value does not help it. */
async function attempt({ origin, csrf }) {
  const body = JSON.stringify({ uri: 'udp4://203.0.113.66:6363' });
  const route = JSON.stringify({ prefix: '/bank', face_id: 1 });
  const attempts = {
    read: () => fetch(`${origin}/v1/faces`, { credentials: 'include' }),
    readWithHeader: () =>
      fetch(`${origin}/v1/faces`, {
        credentials: 'include',
        headers: { 'X-NW-CSRF': csrf },
      }),
    post: () =>
      fetch(`${origin}/v1/faces`, {
        method: 'POST',
        credentials: 'include',
        headers: { 'Content-Type': 'application/json', 'X-NW-CSRF': csrf },
        body,
      }),
    put: () =>
      fetch(`${origin}/v1/routes`, {
        method: 'PUT',
        credentials: 'include',
        headers: { 'Content-Type': 'application/json', 'X-NW-CSRF': csrf },
        body: route,
      }),
    blind: () =>
      fetch(`${origin}/v1/faces`, {
        method: 'POST',
        mode: 'no-cors',
        credentials: 'include',
        body,
      }),
    login: () =>
      fetch(`${origin}/v1/session`, {
        method: 'POST',
        credentials: 'include',
        headers: { 'Content-Type': 'application/json' },
        body: '{"ticket":"x"}',
      }),
    beacon: async () => (
      navigator.sendBeacon(`${origin}/v1/faces`, new Blob([body], { type: 'text/plain' })),
      { type: 'opaque' }
    ),
    events: () => fetch(`${origin}/v1/events`, { credentials: 'include' }),
  };
  const outcomes = [];
  for (const [name, run] of Object.entries(attempts)) {
    try {
      const response = await run();
      outcomes.push({
        name,
        read: response.type !== 'opaque' && response.status !== 0,
      });
    } catch {
      outcomes.push({ name, read: false });
    }
  }
  return outcomes;
}

function frame(origin) {
  return new Promise((done) => {
    const frame = document.createElement('iframe');
    frame.src = origin;
    // A refused frame shows an error page of the browser, which no script may look into either; but
    // the frame of a page that loads has a title of its own to report by its size of children.
    frame.onload = () => done(frame.contentWindow.length === 0 ? 'refused' : 'shown');
    frame.onerror = () => done('refused');
    document.body.append(frame);
    setTimeout(() => done('refused'), 3000);
  });
}

test('publish_subscribe_shows_publishers_items_and_subscribers', { skip }, async (t) => {
  const { tab, faults } = await openPage(t);
  await openView(tab, 'Publish/subscribe');
  await tab.getByText('No item is announced').waitFor();
  router.spawn(t, 'sub', '/sensors/**');
  // It waits for more subscribers than there are, so its item stays announced.
  router.spawn(t, 'pub', '--wait', '9', '/sensors/room1/temperature', '21.5');
  await tab.locator('#items').getByText('/sensors/room1/temperature').waitFor();
  await tab.locator('.node-table summary').click();
  const rows = tab.locator('.node-table tbody tr');
  await rows.getByText('temperature', { exact: true }).click();
  await tab.getByRole('complementary').getByText('published').waitFor();
  await until('the subscriber is shown', async () =>
    (await rows.allInnerTexts()).some((text) => text.includes('application')),
  );
  await screenshot(tab, 'pubsub-light');
  assert.deepEqual(faults, []);
});

test('views_have_no_serious_accessibility_finding', { skip }, async (t) => {
  const { tab } = await openPage(t, { bypassCSP: true });
  const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
  for (const theme of ['light', 'dark']) {
    await tab.getByLabel('Colours').selectOption(theme);
    for (const view of [
      'Overview',
      'Map',
      'Faces',
      'Routes',
      'Strategies',
      'Publish/subscribe',
      'Trace',
      'Tap',
      'Log',
    ]) {
      await openView(tab, view);
      await tab.evaluate(axe);
      const { violations } = await tab.evaluate(() =>
        globalThis.axe.run(document, { resultTypes: ['violations'] }),
      );
      const serious = violations.filter(
        ({ impact }) => impact === 'serious' || impact === 'critical',
      );
      const found = serious.map(
        ({ id, nodes }) =>
          `${id}: ${nodes
            .map(({ html }) => html)
            .slice(0, 3)
            .join(' | ')}`,
      );
      assert.deepEqual(found, [], `${view}, ${theme}`);
    }
  }
});

test('keyboard_alone_opens_views_and_selects_a_node', { skip }, async (t) => {
  const { tab } = await openPage(t);
  await router.nw('face', 'create', `udp4://127.0.0.1:${await freePort()}`);
  await tab.getByRole('tab', { name: 'Overview' }).focus();
  await tab.keyboard.press('ArrowRight');
  await tab.getByRole('application').waitFor();
  await tab.locator('.node-table summary').focus();
  await tab.keyboard.press('Enter');
  await tab.locator('.node-table tbody button').nth(1).focus();
  await tab.keyboard.press('Enter');
  await tab.getByRole('complementary').waitFor();
  for (const view of ['Map', 'Publish/subscribe', 'Trace', 'Tap']) {
    await openView(tab, view);
    assert.deepEqual(await walkByKeyboard(tab), [], view);
    assert.equal(await overflowOfPhone(tab), 0, view);
  }
});

test('screenshots_in_light_dark_and_phone_width', { skip }, async (t) => {
  router.spawn(t, 'ping-server', '/film');
  router.spawn(t, 'ping-server', '/weather');
  await until('the servers are registered', async () =>
    (await router.nw('route', 'list')).includes('/weather'),
  );
  for (const last of [11, 12, 13])
    await router.nw('route', 'add', `/site/${last}`, `udp4://127.0.0.${last}:6363`);
  const pings = ['/film', '/weather'].map((name) =>
    router.spawn(t, 'ping', name, '--interval', '10'),
  );
  const { tab, faults } = await openPage(t);
  await new Promise((go) => setTimeout(go, 4000));
  for (const theme of ['light', 'dark']) {
    await tab.getByLabel('Colours').selectOption(theme);
    for (const view of ['Overview', 'Map', 'Faces', 'Routes']) {
      await openView(tab, view);
      await new Promise((go) => setTimeout(go, view === 'Map' ? 1500 : 600));
      await screenshot(tab, `${view.toLowerCase()}-${theme}`);
    }
  }
  await tab.setViewportSize({ width: 390, height: 800 });
  for (const view of ['Overview', 'Map']) {
    await openView(tab, view);
    await new Promise((go) => setTimeout(go, 800));
    await screenshot(tab, `phone-${view.toLowerCase()}`);
    const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${view}: ${overflow} pixels wider than a phone`);
  }
  pings.forEach((ping) => ping.kill());
  assert.deepEqual(faults, []);
});

const BOUNDS = JSON.parse(
  execFileSync('python3', [new URL('../bounds.py', import.meta.url).pathname]),
);

// A step of its own, which runs alone: see run.
for (const nodes of process.env.NW_PAGE_FRAMES === 'no' ? [] : [200, 1000]) {
  const entry = (way) => BOUNDS[`page/map_of_${nodes}_nodes.frames_${way}`];
  const least = entry('moved').at_least;
  test(`map_of_${nodes}_nodes_draws_${least}_frames_per_second`, { skip }, async (t) => {
    const { measureMap } = await import('./map-speed.mjs');
    // The median of three runs counts.
    const bound = (way) => entry(way).at_least;
    const rates = { moved: [], zoomed: [] };
    for (let run = 0; run < 3; run += 1) {
      const measured = await measureMap(t, browser, nodes);
      for (const way of Object.keys(rates)) {
        const { framesPerSecond, drawMs } = measured[way];
        rates[way].push(framesPerSecond);
        const figures = `${framesPerSecond.toFixed(0)} frames/s, ${drawMs.toFixed(1)} ms of script`;
        console.log(`${nodes} nodes, ${way}: ${figures}`);
      }
      console.log(`  placed in ${measured.layoutMs.toFixed(0)} ms`);
    }
    const median = (way) => rates[way].sort((a, b) => a - b)[1];
    for (const way of ['moved', 'zoomed']) {
      assert.ok(median(way) >= bound(way), `${way}: ${median(way)} frames/s, wanted ${bound(way)}`);
    }
  });
}

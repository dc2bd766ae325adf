// Frames per second of the map component with a synthetic graph: moved in every frame, and zoomed
// in every frame, so that all is drawn again. The map's own code is measured, with its worker; a
// page of this test holds it.
import { createServer } from 'node:http';
import { join } from 'node:path';
import { require, root, screenshot } from './harness.mjs';

const { buildSync } = require('esbuild');
const source = join(root, 'page/src');

const ENTRY = `
import { MapCanvas } from './map/canvas';
const palette = { background: '#fff', text: '#222', muted: '#666', line: '#bbb', node: '#fff', accent: '#48b', onSign: '#fff',
  health: { ok: '#075', warning: '#a50', failed: '#b22', idle: '#777' } };
globalThis.measure = async (count, seconds) => {
  const kinds = ['router', 'peer', 'content_store', 'name_filter', 'backward_router'];
  const healths = ['ok', 'ok', 'ok', 'ok', 'idle', 'warning', 'failed'];
  const nodes = Array.from({ length: count }, (_, i) => ({ id: String(i), label: 'element-' + i, kind: kinds[i % 5], health: healths[i % 7], values: { rate: i } }));
  const links = Array.from({ length: count * 2 }, (_, i) => ({ id: 'l' + i, from: String(i % count), to: String(i < count ? Math.floor(i / 3) : (i * 7919) % count), health: healths[i % 7], values: { rate: (i * 37) % 5000 } }));
  const canvas = document.querySelector('canvas');
  const map = new MapCanvas(canvas, { onSelect() {}, storageKey: 'test', palette: () => palette, linkLabel: (link) => String(link.values.rate) });
  const started = performance.now();
  map.setGraph({ nodes, links });
  while (!localStorage.getItem('test')) await new Promise((go) => setTimeout(go, 20));
  const layoutMs = performance.now() - started;
  map.fit();
  await new Promise((go) => setTimeout(go, 200));
  let drawMs = 0;
  const draw = map.draw.bind(map);
  map.draw = () => { const at = performance.now(); draw(); drawMs += performance.now() - at; };
  const run = async (change) => {
    const [frames, begin] = [map.frames, performance.now()];
    drawMs = 0;
    await new Promise((done) => {
      const step = (at) => {
        if (at - begin > seconds * 1000) return done();
        change(at - begin);
        requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    });
    const drawn = map.frames - frames;
    const tookS = (performance.now() - begin) / 1000;
    return { framesPerSecond: drawn / tookS, drawMs: drawMs / drawn };
  };
  // The map moves as far as a person drags it, there and back, by places that time decides.
  let x = 0;
  const moved = await run((ms) => {
    const next = 300 * Math.sin(ms / 300);
    map.panBy(next - x, (next - x) / 3);
    x = next;
  });
  let k = 1;
  const zoomed = await run((ms) => {
    const next = 1 + 0.3 * Math.sin(ms / 300);
    map.zoomBy(next / k);
    k = next;
  });
  return { moved, zoomed, layoutMs };
};
`;

function bundle(stdin) {
  const options = { bundle: true, minify: true, write: false, format: 'iife' };
  const input = stdin
    ? { stdin: { contents: stdin, resolveDir: source, loader: 'ts' } }
    : { entryPoints: [join(source, 'map/layout.worker.ts')] };
  return buildSync({ ...options, ...input }).outputFiles[0].text;
}

export async function measureMap(t, browser, nodes) {
  const files = { '/map.js': bundle(ENTRY), '/layout.js': bundle() };
  const server = createServer((request, response) => {
    const script = files[request.url];
    response.setHeader('Content-Type', script ? 'text/javascript' : 'text/html');
    response.end(
      script ??
        '<!doctype html><canvas style="width:1200px;height:700px"></canvas><script src="/map.js"></script>',
    );
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  t.after(() => server.close());
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
  });
  t.after(() => context.close());
  const tab = await context.newPage();
  await tab.goto(`http://127.0.0.1:${server.address().port}/`);
  const measured = await tab.evaluate((count) => globalThis.measure(count, 1.5), nodes);
  await screenshot(tab, `map-${nodes}`);
  return measured;
}

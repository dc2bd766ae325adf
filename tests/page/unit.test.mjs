// Parts of the page without a browser: filters, folding, packets, rates.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';

const page = join(import.meta.dirname, '../../page');
const { buildSync } = createRequire(join(page, 'package.json'))('esbuild');

async function load(source) {
  const { outputFiles } = buildSync({
    entryPoints: [join(page, 'src', source)],
    bundle: true,
    write: false,
    format: 'esm',
  });
  return import(
    `data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`
  );
}

const node = (id, values = {}, more = {}) => ({
  id,
  label: id,
  kind: 'peer',
  health: 'ok',
  values,
  ...more,
});

test('filter_terms_must_all_match', async () => {
  const { parseFilter } = await load('map/filter.ts');
  const cs = node('cs~1', { rate: 1200, host: 'h2' }, { kind: 'content_store' });
  for (const [text, expected] of [
    ['', false],
    ['kind=content_store', true],
    ['kind=content_store rate>1000 host=h2', true],
    ['kind=content_store rate>2000', false],
    ['rate<=1200', true],
    ['rate>=1200', true],
    ['name~CS', true],
    ['cs', true],
    ['-cs', false],
    ['-kind=peer', true],
    ['host!=h1', true],
    ['load>0', false],
    ['health=ok', true],
  ]) {
    assert.equal(parseFilter(text)(cs), expected, text);
  }
});

test('clones_fold_into_one_node_with_the_worst_health_and_summed_rates', async () => {
  const { fold } = await load('map/model.ts');
  const nodes = [
    node('a'),
    node('cs~1', { rate: 10 }, { group: 'cs' }),
    node('cs~2', { rate: 5 }, { group: 'cs', health: 'failed' }),
    node('single', {}, { group: 'alone' }),
  ];
  const links = [
    { id: '1', from: 'a', to: 'cs~1', health: 'ok', values: { rate: 10 } },
    { id: '2', from: 'a', to: 'cs~2', health: 'failed', values: { rate: 5 } },
    { id: '3', from: 'cs~1', to: 'cs~2', health: 'ok', values: {} },
  ];
  const folded = fold({ nodes, links }, new Set());
  assert.deepEqual(
    folded.nodes.map(({ id, label, health }) => [id, label, health]),
    [
      ['a', 'a', 'ok'],
      ['fold:cs', 'cs ×2', 'failed'],
      ['single', 'single', 'ok'],
    ],
  );
  assert.equal(folded.nodes[1].values.rate, 15);
  assert.deepEqual(
    folded.links.map(({ from, to, health, values }) => [from, to, health, values.rate]),
    [['a', 'fold:cs', 'failed', 15]],
  );
  assert.equal(nodes[1].values.rate, 10, 'the graph itself is unchanged');
  assert.equal(fold({ nodes, links }, new Set(['cs'])).nodes.length, 4);
});

test('packet_is_dissected_and_a_malformed_one_says_so', async () => {
  const { dissect, summarize } = await load('tap/packet.ts');
  const hex = (text) => Uint8Array.from(text.match(/../g).map((byte) => Number.parseInt(byte, 16)));
  // Interest /a/b with CanBePrefix, a nonce and a lifetime of 4000 ms, in an LpPacket.
  const interest = hex(
    '64185016' + '0514' + '0706080161080162' + '2100' + '0a0401020304' + '0c020fa0',
  );
  const elements = dissect(interest);
  assert.deepEqual(summarize(elements), { kind: 'Interest', name: '/a/b' });
  const inner = elements[0].children[0].children[0].children;
  assert.deepEqual(
    inner.map(({ text, value }) => `${text} ${value}`.trim()),
    ['Name /a/b', 'CanBePrefix', 'Nonce 01 02 03 04 (4 bytes)', 'InterestLifetime 4000'],
  );
  for (const bad of ['05', '0501', '05ff', '0564070608016108', 'fdffff', '05ff0000000000000001']) {
    assert.ok(JSON.stringify(dissect(hex(bad))).includes('malformed'), bad);
  }
  let deep = '';
  for (let level = 0; level < 60; level += 1)
    deep = `07${(deep.length / 2).toString(16).padStart(2, '0')}${deep}`;
  dissect(hex(deep));
});

test('capture_counts_lost_packets_of_packets_and_of_statistics', async () => {
  const { CaptureReader } = await load('tap/packet.ts');
  const block = (type, body) => {
    const bytes = new Uint8Array(body.length + 12);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, type, true);
    view.setUint32(4, bytes.length, true);
    bytes.set(body, 8);
    view.setUint32(bytes.length - 4, bytes.length, true);
    return bytes;
  };
  const word = (value) => [value & 255, value >> 8, 0, 0];
  const drops = (code, lost) => [code, 0, 8, 0, ...word(lost), ...word(0), 0, 0, 0, 0];
  const name = [2, 0, 4, 0, ...new TextEncoder().encode('cs.a'), 0, 0, 0, 0];
  // 14 bytes of Ethernet and two of a packet.
  const head = [...word(0), ...word(0), ...word(0), ...word(16), ...word(16)];
  const packet = (lost) => block(6, [...head, ...Array(16).fill(0), ...drops(4, lost)]);
  const reader = new CaptureReader();
  reader.read(block(1, [1, 0, 0, 0, ...word(0), ...name]));
  assert.equal(reader.read(packet(3))[0].face, 'cs.a');
  assert.equal(reader.lost, 3);
  reader.read(block(5, [...word(0), ...word(0), ...word(0), ...drops(5, 300)]));
  assert.equal(reader.lost, 300, 'statistics have the number since the start');
  reader.read(packet(2));
  assert.equal(reader.lost, 302);
});

test('rates_are_changes_per_second_and_fade_for_quiet_faces', async () => {
  const { RouterModel } = await load('router/model.ts');
  const face = (in_interests) => ({
    face_id: 256,
    uri: 'udp4://192.0.2.1:6363',
    in_interests,
    in_data: 0,
    in_bytes: 0,
    out_interests: 0,
    out_data: 0,
    out_bytes: 0,
  });
  const model = new RouterModel();
  model.apply({
    at_ms: 1000,
    is_snapshot: true,
    is_truncated: false,
    faces: [face(100)],
  });
  assert.equal(model.ratesOf(256).inInterests, 0, 'what came before is no rate');
  model.apply({
    at_ms: 2000,
    is_snapshot: false,
    is_truncated: false,
    faces: [face(200)],
  });
  assert.equal(Math.round(model.ratesOf(256).inInterests), 40);
  model.apply({ at_ms: 3000, is_snapshot: false, is_truncated: false });
  assert.equal(Math.round(model.ratesOf(256).inInterests), 24);
  model.apply({
    at_ms: 3500,
    is_snapshot: false,
    is_truncated: false,
    removed_faces: [256],
  });
  assert.equal(model.faces.size, 0);
});

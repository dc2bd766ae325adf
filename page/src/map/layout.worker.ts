// Places nodes by forces, in a worker. Nodes with a fixed place stay there.

import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from 'd3-force';

export interface LayoutRequest {
  version: number;
  nodes: { id: string; x?: number; y?: number; isFixed: boolean }[];
  links: { source: string; target: string }[];
}

export interface LayoutReply {
  version: number;
  ids: string[];
  /** x and y of each node, in turn. */
  places: Float32Array;
  isFinal: boolean;
}

interface Body {
  id: string;
  x?: number;
  y?: number;
  fx?: number;
  fy?: number;
}

const TICKS = 240;
/** Time between two replies, milliseconds. */
const REPLY_INTERVAL_MS = 120;
let newest = 0;

self.onmessage = async ({ data }: MessageEvent<LayoutRequest>) => {
  newest = data.version;
  const bodies: Body[] = data.nodes.map(({ id, x, y, isFixed }) =>
    isFixed ? { id, x, y, fx: x, fy: y } : { id, x, y },
  );
  const distance = bodies.length > 300 ? 55 : 110;
  const simulation = forceSimulation(bodies)
    .force(
      'link',
      forceLink<Body, { source: string | Body; target: string | Body }>(
        data.links.map((link) => ({ ...link })),
      )
        .id((body) => body.id)
        .distance(distance),
    )
    .force(
      'charge',
      forceManyBody()
        .strength(bodies.length > 300 ? -120 : -420)
        .theta(1),
    )
    .force('x', forceX(0).strength(0.06))
    .force('y', forceY(0).strength(0.08))
    .force('collide', forceCollide(22))
    .alphaDecay(1 - 0.001 ** (1 / TICKS))
    .stop();
  const ids = bodies.map(({ id }) => id);
  let replied = performance.now();
  for (let tick = 0; tick < TICKS; tick += 1) {
    simulation.tick();
    if (performance.now() - replied < REPLY_INTERVAL_MS) continue;
    reply(data.version, ids, bodies, false);
    // Lets a newer request in: it replaces this one.
    await new Promise((done) => setTimeout(done, 0));
    if (newest !== data.version) return;
    replied = performance.now();
  }
  reply(data.version, ids, bodies, true);
};

function reply(version: number, ids: string[], bodies: Body[], isFinal: boolean) {
  const places = new Float32Array(bodies.length * 2);
  bodies.forEach(({ x, y }, index) => {
    places[index * 2] = x ?? 0;
    places[index * 2 + 1] = y ?? 0;
  });
  const message: LayoutReply = { version, ids, places, isFinal };
  (self as unknown as Worker).postMessage(message, [places.buffer]);
}

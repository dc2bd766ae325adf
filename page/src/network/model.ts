// The state of a network as `GET /v1/graph` describes it, translated for the map, with curves of
// instances and the graphs of the last hour.

import { Curves } from '../router/model';
import type { Health, MapGraph, MapLink, MapNode } from '../map/model';
import type { components } from '../types/network';

export type Schemas = components['schemas'];
export type Graph = Schemas['NetworkGraph'];
export type Instance = Schemas['GraphInstance'];
export type NetworkEvent = Schemas['NetworkEvent'];

/** Distance of neighbours in the server's layout, in units of the map. */
export const GRID = { x: 190, y: 125 };
const EVENTS_MAX = 300;
/** The last hour, one graph every five seconds. */
const RECORDED_MAX = 720;
const RECORD_INTERVAL_MS = 5000;
const CURVES_MAX = 300;

export interface Recorded {
  atMs: number;
  graph: MapGraph;
}

export const idOf = ({ name, host }: { name: string; host: string }): string =>
  `${name} on ${host}`;

/** An instance that ended is shown as failed for this long, even if it was started anew at once. */
const ENDED_SHOWN_MS = 4000;

export class NetworkModel {
  private readonly endedAt = new Map<string, number>();
  graph: Graph | undefined;
  map: MapGraph = { nodes: [], links: [] };
  events: NetworkEvent[] = [];
  recorded: Recorded[] = [];
  /** Interests and Data per second, and processor cores in percent, of each instance. */
  readonly curves = new Map<string, Curves>();
  /** Instances and Interests per second of each service. */
  readonly services = new Map<string, Curves>();

  apply(graph: Graph): void {
    const isNew = graph.at_ms !== this.graph?.at_ms;
    this.graph = graph;
    const shownFrom = Date.now() - ENDED_SHOWN_MS;
    for (const [id, at] of this.endedAt) if (at < shownFrom) this.endedAt.delete(id);
    this.map = toMap(graph, this.endedAt);
    if (!isNew) return;
    const known = new Set(graph.instances.map(idOf));
    for (const id of this.curves.keys()) if (!known.has(id)) this.curves.delete(id);
    for (const instance of graph.instances) {
      const { interests, data } = instance.rates;
      addSample(this.curves, idOf(instance), graph.at_ms, [
        interests,
        data,
        instance.cpu_cores * 100,
      ]);
    }
    for (const service of graph.services) {
      const own = graph.instances.filter((instance) => instance.service === service.name);
      const interests = own.reduce((sum, { rates }) => sum + rates.interests, 0);
      addSample(this.services, service.name, graph.at_ms, [service.running, interests]);
    }
    const last = this.recorded.at(-1);
    if (!last || graph.at_ms - last.atMs >= RECORD_INTERVAL_MS) {
      this.recorded = [...this.recorded, { atMs: graph.at_ms, graph: this.map }].slice(
        -RECORDED_MAX,
      );
    }
  }

  addEvent(event: NetworkEvent): void {
    this.events = [...this.events, event].slice(-EVENTS_MAX);
    if (event.kind === 'instance-ended' && event.instance) {
      this.endedAt.set(event.instance, event.at_ms);
    }
  }
}

function addSample(into: Map<string, Curves>, key: string, atMs: number, values: number[]) {
  let curves = into.get(key);
  if (!curves) {
    if (into.size >= CURVES_MAX) return;
    curves = new Curves(values.length);
    into.set(key, curves);
  }
  curves.add(atMs, values);
}

export function healthOf(instance: Instance): Health {
  if (instance.state === 'ended') return 'failed';
  if (instance.state !== 'running' || instance.origin === 'orphan' || instance.reason)
    return 'warning';
  return instance.rates.interests + instance.rates.data > 0.05 ? 'ok' : 'idle';
}

function toMap(graph: Graph, endedAt: ReadonlyMap<string, number>): MapGraph {
  const nodes: MapNode[] = graph.instances.map((instance) => ({
    id: idOf(instance),
    label: instance.name,
    kind: kindOf(instance),
    health: endedAt.has(idOf(instance)) ? 'failed' : healthOf(instance),
    group: instance.service,
    x: instance.position.x * GRID.x,
    y: instance.position.y * GRID.y,
    values: {
      host: instance.host,
      service: instance.service,
      state: instance.state,
      origin: instance.origin,
      rate: instance.rates.interests + instance.rates.data,
      dropped: instance.rates.dropped,
      cpu: instance.cpu_cores,
      memory: instance.resident_bytes,
      pending: instance.pending,
    },
  }));
  const links: MapLink[] = graph.links.map((link) => ({
    id: link.id,
    from: endOf(link.from),
    to: endOf(link.to),
    health: link.up ? 'ok' : 'failed',
    values: {
      kind: link.kind,
      rate: packets(link.forward) + packets(link.backward),
      pending: link.pending,
    },
  }));
  for (const edge of graph.edges) addEdge(edge, nodes, links);
  return { nodes, links };
}

function addEdge(edge: Schemas['GraphEdge'], nodes: MapNode[], links: MapLink[]) {
  const inside = endOf(edge.end);
  const id = `edge:${inside}:${edge.end.face}`;
  const rate = packets(edge.inward) + packets(edge.outward);
  const health: Health = edge.up ? (rate > 0.05 ? 'ok' : 'idle') : 'warning';
  const at = nodes.find((node) => node.id === inside);
  const shift = nodes.filter((node) => node.id.startsWith(`edge:${inside}:`)).length;
  const side = sideOf(inside, at?.x ?? 0, nodes, links);
  nodes.push({
    id,
    label: faceName(edge.end.face),
    kind: 'listener',
    health,
    ...placeOf(at, side, shift, nodes),
    values: { uri: edge.uri, rate },
  });
  links.push({ id, from: id, to: inside, health, values: { rate } });
}

/** Returns the place of a face to the outside: beside its instance, or where there is space. */
function placeOf(
  at: MapNode | undefined,
  side: -1 | 0 | 1,
  shift: number,
  nodes: MapNode[],
): { x: number; y: number } {
  const [x, y] = [at?.x ?? 0, at?.y ?? 0];
  if (side !== 0) return { x: x + GRID.x * 0.62 * side, y: y + shift * 60 };
  const isFree = (way: -1 | 1) =>
    !nodes.some((node) => {
      const [dx, dy] = [(node.x ?? 0) - x, ((node.y ?? 0) - y) * way];
      return Math.abs(dx) < GRID.x / 2 && dy > 0 && dy < GRID.y * 1.4;
    });
  const way = isFree(-1) || !isFree(1) ? -1 : 1;
  return { x: x + shift * GRID.x * 0.4, y: y + way * GRID.y * 0.75 };
}

/** Returns on which side of an instance a face to the outside is drawn: 0 is above. */
function sideOf(inside: string, x: number, nodes: MapNode[], links: MapLink[]): -1 | 0 | 1 {
  const isHere = ({ from, to }: MapLink) => from === inside || to === inside;
  const neighbours = links
    .filter(isHere)
    .map(({ from, to }) => nodes.find(({ id }) => id === (from === inside ? to : from))?.x ?? x);
  if (!neighbours.some((other) => other < x)) return -1;
  return neighbours.some((other) => other > x) ? 0 : 1;
}

/** Returns the name in the document of a face: those that the manager has named end in a hash. */
export const faceName = (face: string): string => face.replace(/_[0-9a-f]{6,16}$/, '');

const endOf = (end: Schemas['GraphLinkEnd']): string => `${end.instance} on ${end.host}`;

const packets = (rates: Schemas['GraphRates']): number =>
  rates.interests + rates.data + rates.nacks;

/** Returns the element of an instance that has one, or the word for several. */
const kindOf = (instance: Instance): string =>
  instance.elements.length === 1
    ? instance.elements[0]!.element
    : instance.elements.length > 1
      ? 'elements'
      : 'service';

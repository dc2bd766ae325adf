// What a map shows: nodes and links of any kind. Views of routers, networks, clusters and
// recordings translate their state into this.

/** Health of a node or link. It is drawn by colour and by a sign. */
export type Health = 'ok' | 'warning' | 'failed' | 'idle';

export interface MapNode {
  id: string;
  label: string;
  /** Kind: it chooses the shape, and can be searched for. */
  kind: string;
  health: Health;
  /** Clones of one element have the same group; they can be folded into one node. */
  group?: string;
  /** Place chosen by the server; the layout does not move it. */
  x?: number;
  y?: number;
  /** Values to search for and to show: host, rate, load and others. */
  values: Record<string, string | number>;
}

export interface MapLink {
  id: string;
  from: string;
  to: string;
  health: Health;
  /** Values by name; the map draws one as the label, and `rate` as the width. */
  values: Record<string, string | number>;
}

export interface MapGraph {
  nodes: MapNode[];
  links: MapLink[];
}

const ORDER: Health[] = ['idle', 'ok', 'warning', 'failed'];

/** Returns the worse of two. */
export const worse = (a: Health, b: Health): Health =>
  ORDER.indexOf(a) >= ORDER.indexOf(b) ? a : b;

/** Folds clones into one node ×N, except those of groups in `unfolded`. */
export function fold(graph: MapGraph, unfolded: ReadonlySet<string>): MapGraph {
  const sizes = new Map<string, number>();
  for (const { group } of graph.nodes) if (group) sizes.set(group, (sizes.get(group) ?? 0) + 1);
  const target = new Map<string, string>();
  const nodes = new Map<string, MapNode>();
  for (const node of graph.nodes) {
    const size = node.group ? sizes.get(node.group)! : 1;
    if (size < 2 || unfolded.has(node.group!)) {
      nodes.set(node.id, node);
      continue;
    }
    const id = `fold:${node.group}`;
    target.set(node.id, id);
    const folded = nodes.get(id);
    if (folded) {
      folded.health = worse(folded.health, node.health);
      addNumbers(folded.values, node.values);
    } else {
      nodes.set(id, {
        ...node,
        id,
        label: `${node.group} ×${size}`,
        values: { ...node.values, clones: size },
      });
    }
  }
  return { nodes: [...nodes.values()], links: mergeLinks(graph.links, target) };
}

/** Links between the same folded nodes become one. */
function mergeLinks(links: MapLink[], target: Map<string, string>): MapLink[] {
  const merged = new Map<string, MapLink>();
  for (const link of links) {
    const [from, to] = [target.get(link.from) ?? link.from, target.get(link.to) ?? link.to];
    if (from === link.from && to === link.to) {
      merged.set(link.id, link);
      continue;
    }
    if (from === to) continue;
    const id = `${from}>${to}`;
    const known = merged.get(id);
    if (known) {
      known.health = worse(known.health, link.health);
      addNumbers(known.values, link.values);
    } else {
      merged.set(id, { ...link, id, from, to, values: { ...link.values } });
    }
  }
  return [...merged.values()];
}

function addNumbers(into: Record<string, string | number>, from: Record<string, string | number>) {
  for (const [key, value] of Object.entries(from)) {
    const before = into[key];
    if (key !== 'clones' && typeof value === 'number' && typeof before === 'number')
      into[key] = before + value;
  }
}

// Shapes of nodes by kind, and signs and colours of health. Shape and sign carry the meaning
// without colour.

import type { Health } from './model';

export type Shape = 'circle' | 'square' | 'diamond' | 'triangle' | 'hexagon' | 'pentagon';

/** Colours of a map, read from the style sheet. */
export interface Palette {
  background: string;
  text: string;
  muted: string;
  line: string;
  node: string;
  accent: string;
  /** Text on a filled sign. */
  onSign: string;
  health: Record<Health, string>;
}

export const SIGNS: Record<Health, string> = { ok: '', idle: '', warning: '!', failed: '✕' };

const KNOWN: Record<string, Shape> = {
  router: 'hexagon',
  name_router: 'hexagon',
  balancer: 'diamond',
  peer: 'circle',
  member: 'circle',
  application: 'square',
  content_store: 'square',
  backward_router: 'pentagon',
  strategy_forwarder: 'triangle',
  signature_verifier: 'diamond',
  name_filter: 'diamond',
  group: 'diamond',
  scope: 'diamond',
  item: 'circle',
  consumer: 'square',
  producer: 'triangle',
  listener: 'triangle',
};
const OTHERS: Shape[] = ['circle', 'square', 'diamond', 'triangle', 'pentagon'];

export function shapeOf(kind: string): Shape {
  let hash = 0;
  for (const letter of kind) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  return KNOWN[kind] ?? OTHERS[hash % OTHERS.length]!;
}

const MARKS: Record<string, string> = { elements: '…', service: '…', listener: '' };

/** Returns one or two letters for a kind, such as CS for content_store. */
export const markOf = (kind: string): string =>
  MARKS[kind] ??
  kind
    .split('_')
    .slice(0, 2)
    .map((word) => word[0]?.toUpperCase() ?? '')
    .join('');

const CORNERS: Record<Exclude<Shape, 'circle'>, [number, number]> = {
  // Number of corners, and the angle of the first in eighths of a turn.
  square: [4, 1],
  diamond: [4, 0],
  triangle: [3, -2],
  pentagon: [5, -2],
  hexagon: [6, 0],
};

/** Adds the outline of a node to a path. */
export function outline(
  path: CanvasPath,
  shape: Shape,
  x: number,
  y: number,
  radius: number,
): void {
  if (shape === 'circle') {
    path.moveTo(x + radius, y);
    path.arc(x, y, radius, 0, 2 * Math.PI);
    return;
  }
  const [corners, start] = CORNERS[shape];
  const reach = radius * (shape === 'triangle' ? 1.25 : 1.12);
  for (let corner = 0; corner < corners; corner += 1) {
    const angle = (start / 8 + corner / corners) * 2 * Math.PI;
    const [px, py] = [x + reach * Math.cos(angle), y + reach * Math.sin(angle)];
    if (corner === 0) path.moveTo(px, py);
    else path.lineTo(px, py);
  }
  path.closePath();
}

/** Returns the outline as the points of an SVG polygon of 16 by 16. */
export function svgPath(shape: Shape): string {
  const parts: string[] = [];
  const write = (command: string) => (x: number, y: number) =>
    void parts.push(`${command}${x.toFixed(2)} ${y.toFixed(2)}`);
  const path = {
    moveTo: write('M'),
    lineTo: write('L'),
    arc: (x: number, y: number, r: number) =>
      void parts.push(`M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`),
    closePath: () => void parts.push('Z'),
  };
  if (shape === 'circle') path.arc(8, 8, 6);
  else outline(path as unknown as CanvasPath, shape, 8, 8, 6);
  return parts.join('');
}

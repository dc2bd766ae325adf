// Frames around the nodes of one host, behind everything else. Nodes without a host have none.

import type { MapNode } from './model';
import type { Palette } from './shapes';

/** Space around the outermost nodes of a host. */
const MARGIN = { left: 46, right: 46, top: 46, bottom: 58 };

type Shown = { node: MapNode; place: { x: number; y: number } };

/** Draws the frames if there are several hosts. `scale` keeps the text readable. */
export function drawFrames(
  context: CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D,
  shown: Shown[],
  palette: Palette,
  scale: number,
): void {
  const hosts = new Map<string, { left: number; right: number; top: number; bottom: number }>();
  for (const { node, place } of shown) {
    const host = node.values['host'];
    if (typeof host !== 'string' || host === '') continue;
    const { x, y } = place;
    const area = hosts.get(host) ?? { left: x, right: x, top: y, bottom: y };
    area.left = Math.min(area.left, x);
    area.right = Math.max(area.right, x);
    area.top = Math.min(area.top, y);
    area.bottom = Math.max(area.bottom, y);
    hosts.set(host, area);
  }
  if (hosts.size < 2) return;
  const size = Math.min(24, Math.max(11, 12 / scale));
  context.font = `600 ${size}px system-ui, sans-serif`;
  context.textAlign = 'left';
  context.textBaseline = 'top';
  for (const [host, { left, right, top, bottom }] of hosts) {
    const [x, y] = [left - MARGIN.left, top - MARGIN.top];
    const [width, height] = [right + MARGIN.right - x, bottom + MARGIN.bottom - y];
    context.beginPath();
    context.roundRect(x, y, width, height, 14);
    context.globalAlpha = 0.55;
    context.fillStyle = palette.node;
    context.fill();
    context.globalAlpha = 1;
    context.setLineDash([2, 4]);
    context.lineWidth = 1.2;
    context.strokeStyle = palette.line;
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = palette.muted;
    context.fillText(host, x + 10, y + 7);
  }
}

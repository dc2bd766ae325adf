// Nodes as small images: each look is drawn once for a scale and copied for every node that has
// it, as outlines are slow to draw without a GPU. All looks are in one canvas, the atlas.

import type { Health, MapNode } from './model';
import { markOf, outline, shapeOf, SIGNS, type Palette } from './shapes';

/** Half the width of a node, in units of the map. */
export const RADIUS = 16;
/** Half the width of a cell: outline, clone behind it and sign have space. */
const REACH = 29;
/** Cells of a row of the atlas, and looks that it can have. */
const COLUMNS = 16;
const LOOKS_MAX = 256;
/** Above this number of pixels for one unit, images would be large: outlines are drawn. */
const SCALE_MAX = 3;

/** What is equal for all nodes of a frame. */
export interface NodeStyle {
  /** Pixels of the screen for one unit of the map. */
  scale: number;
  palette: Palette;
  /** Nodes have tints, and signs beside them. */
  isDetailed: boolean;
  /** Nodes have the letters of their kind. */
  hasMarks: boolean;
}

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;
type Dimmed = { node: MapNode; isDim: boolean };

interface Look {
  kind: string;
  health: Health;
  isDim: boolean;
  hasClones: boolean;
}

export class Sprites {
  private readonly atlas = new OffscreenCanvas(1, 1);
  private readonly cells = new Map<string, number>();
  private style: NodeStyle | undefined;
  private side = 1;

  /** Draws nodes; `places` are pixels of the screen. The transform is the identity afterwards. */
  draw(context: Context, nodes: Dimmed[], places: ArrayLike<number>, style: NodeStyle): void {
    const keys = nodes.map(({ node, isDim }) => keyOf(node, isDim));
    this.prepare(nodes, keys, style);
    context.setTransform(1, 0, 0, 1, 0, 0);
    const { side } = this;
    nodes.forEach(({ node, isDim }, index) => {
      const [x, y] = [Math.round(places[index * 2]!), Math.round(places[index * 2 + 1]!)];
      const cell = this.cells.get(keys[index]!);
      if (cell === undefined) {
        context.setTransform(style.scale, 0, 0, style.scale, x, y);
        drawLook(context, lookOf(node, isDim), style);
        context.setTransform(1, 0, 0, 1, 0, 0);
        return;
      }
      const [column, row] = [cell % COLUMNS, Math.floor(cell / COLUMNS)];
      const [left, top] = [x - side / 2, y - side / 2];
      context.drawImage(this.atlas, column * side, row * side, side, side, left, top, side, side);
    });
  }

  /** Draws the looks that the atlas lacks, before any is copied: a change copies the atlas. */
  private prepare(nodes: Dimmed[], keys: string[], style: NodeStyle): void {
    if (style.scale > SCALE_MAX) return this.cells.clear();
    if (!this.style || !isSame(this.style, style)) this.cells.clear();
    this.style = style;
    const missing = new Map<string, Look>();
    nodes.forEach(({ node, isDim }, index) => {
      const key = keys[index]!;
      if (!this.cells.has(key) && !missing.has(key)) missing.set(key, lookOf(node, isDim));
    });
    if (missing.size === 0) return;
    this.side = 2 * Math.ceil(REACH * style.scale);
    const rows = Math.ceil(Math.min(LOOKS_MAX, this.cells.size + missing.size) / COLUMNS);
    const [width, height] = [COLUMNS * this.side, rows * this.side];
    if (this.cells.size > 0 && this.atlas.height < height) {
      // A larger atlas is an empty one: all looks are drawn again.
      this.cells.clear();
      return this.prepare(nodes, keys, style);
    }
    if (this.cells.size === 0) Object.assign(this.atlas, { width, height });
    const context = this.atlas.getContext('2d', { willReadFrequently: true })!;
    for (const [key, look] of missing) {
      const cell = this.cells.size;
      if (cell >= LOOKS_MAX) return;
      const [column, row] = [cell % COLUMNS, Math.floor(cell / COLUMNS)];
      const [x, y] = [(column + 0.5) * this.side, (row + 0.5) * this.side];
      context.setTransform(style.scale, 0, 0, style.scale, x, y);
      drawLook(context, look, style);
      this.cells.set(key, cell);
    }
  }
}

const isSame = (a: NodeStyle, b: NodeStyle): boolean =>
  a.scale === b.scale &&
  a.palette === b.palette &&
  a.isDetailed === b.isDetailed &&
  a.hasMarks === b.hasMarks;

const lookOf = ({ kind, health, values }: MapNode, isDim: boolean): Look => ({
  kind,
  health,
  isDim,
  hasClones: Boolean(values['clones']),
});

const keyOf = ({ kind, health, values }: MapNode, isDim: boolean): string =>
  `${kind} ${health}${values['clones'] ? ' clones' : ''}${isDim ? ' dim' : ''}`;

/** Draws a node around the origin. */
function drawLook(
  context: Context,
  { kind, health, isDim, hasClones }: Look,
  { palette, isDetailed, hasMarks }: NodeStyle,
) {
  const shape = shapeOf(kind);
  context.lineJoin = 'round';
  context.lineWidth = health === 'idle' ? 1.5 : 2.5;
  context.strokeStyle = palette.health[health];
  for (const [x, y] of hasClones
    ? [
        [5, -5],
        [0, 0],
      ]
    : [[0, 0]]) {
    context.globalAlpha = isDim ? 0.25 : 1;
    context.beginPath();
    outline(context, shape, x!, y!, RADIUS);
    context.fillStyle = palette.node;
    context.fill();
    if (isDetailed && !isDim) {
      context.globalAlpha = health === 'idle' ? 0.06 : 0.14;
      context.fillStyle = palette.health[health];
      context.fill();
      context.globalAlpha = 1;
    }
    context.stroke();
  }
  context.globalAlpha = 1;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  if (hasMarks && !isDim) {
    context.font = '600 11px system-ui, sans-serif';
    context.fillStyle = health === 'idle' ? palette.muted : palette.text;
    context.fillText(markOf(kind), 0, shape === 'triangle' ? 2.5 : 1);
  }
  if (SIGNS[health]) drawSign(context, health, palette, isDetailed);
}

/** Draws the sign of a health: beside the node, or in it where letters would be too small. */
function drawSign(context: Context, health: Health, palette: Palette, isDetailed: boolean) {
  context.font = 'bold 13px system-ui, sans-serif';
  context.fillStyle = palette.health[health];
  if (!isDetailed) return context.fillText(SIGNS[health], 0, 1);
  const [x, y] = [RADIUS * 0.85, -RADIUS * 0.85];
  context.beginPath();
  context.arc(x, y, 8, 0, 2 * Math.PI);
  context.fill();
  context.fillStyle = palette.onSign;
  context.fillText(SIGNS[health], x, y + 0.5);
}

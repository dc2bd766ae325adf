// Draws the nodes, links and labels of a map onto a canvas. Processor time matters: without a GPU,
// outlines and wide lines are slow, so large maps have thin lines and fewer labels.

import { drawFrames } from './frames';
import type { Health, MapLink, MapNode } from './model';
import type { Palette } from './shapes';
import { RADIUS, Sprites } from './sprites';

export type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;
export type Place = { x: number; y: number };

/** The part of a map that is drawn: `x`, `y` and size in pixels of the page. */
export interface Viewport {
  x: number;
  y: number;
  /** Pixels of the page for one unit of the map. */
  k: number;
  width: number;
  height: number;
  /** Pixels of the screen for one of the page. */
  ratio: number;
}

export interface Scene {
  nodes: MapNode[];
  links: MapLink[];
  places: Map<string, Place>;
  selected: string | undefined;
  isFound: ((node: MapNode) => boolean) | undefined;
  palette: Palette;
  linkLabel(link: MapLink): string;
  nodeNote(node: MapNode): string;
}

type Shown = { node: MapNode; place: Place; isDim: boolean };

/** Space around the view in which nodes and their labels still reach into it. */
const OUTSIDE = 60;
/** Cell of the grid that keeps labels apart, pixels. */
const LABEL_CELL = [16, 12] as const;
/** Space between second lines that stand side by side, pixels. */
const NOTE_GAP = 10;
/** Distance of the two lines of a label, pixels. */
const LABEL_LINE = 15;
const LABEL_LETTERS_MAX = 30;
/** Texts whose widths are kept. */
const WIDTHS_MAX = 3000;
/** Labels have a halo in maps of up to this many visible nodes; more would be slow. */
const HALO_MAX = 120;
/** Nodes have letters, tints and second lines in maps of up to this many visible nodes. */
const DETAIL_MAX = 150;
/** Size of letters in a node from which they can be read, pixels. */
const MARK_PX_MIN = 7;
const LINK_LABELS_MAX = 250;
/** Where a link's label can be, as parts of the link. */
const LINK_LABEL_PLACES = [0.5, 0.36, 0.64];
/** Dashes are slow to draw without a GPU. */
const DASHED_LINKS_MAX = 400;
/** In larger maps the width of links does not show the rate: too much would be covered. */
const WIDE_LINKS_MAX = 800;

const HEALTHS: Health[] = ['idle', 'ok', 'warning', 'failed'];

/** Returns the number of nodes that a view shows. */
export function countShown({ nodes, places }: Scene, view: Viewport): number {
  const isInside = insideOf(view);
  let count = 0;
  for (const { id } of nodes) if (isInside(places.get(id))) count += 1;
  return count;
}

export class ScenePainter {
  private readonly sprites = new Sprites();
  private readonly widths = new Map<string, number>();
  private sorted: { from: MapLink[]; looks: [number, MapLink[]][] } = { from: [], looks: [] };

  /** Draws a view of a scene. `count` is the number of nodes by which details are chosen. */
  draw(context: Context, scene: Scene, view: Viewport, count: number): void {
    const { palette } = scene;
    const { x, y, k, ratio } = view;
    const isDetailed = count <= DETAIL_MAX;
    const shown = shownNodes(scene, view);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = palette.background;
    context.fillRect(0, 0, view.width, view.height);
    context.translate(x, y);
    context.scale(k, k);
    if (isDetailed) drawFrames(context, shown, palette, k);
    this.drawLinks(context, scene, view);
    const selected = shown.find(({ node }) => node.id === scene.selected);
    if (selected) drawRing(context, selected.place, palette);
    const places = new Float64Array(shown.length * 2);
    shown.forEach(({ place }, index) => {
      places[index * 2] = (place.x * k + x) * ratio;
      places[index * 2 + 1] = (place.y * k + y) * ratio;
    });
    const hasMarks = isDetailed && k * 12 >= MARK_PX_MIN;
    this.sprites.draw(context, shown, places, { scale: k * ratio, palette, isDetailed, hasMarks });
    // Texts are placed from the origin of the map, so that the same ones are shown while it moves.
    context.setTransform(ratio, 0, 0, ratio, x * ratio, y * ratio);
    const taken = this.drawLabels(context, scene, shown, k, count);
    if (scene.links.length <= LINK_LABELS_MAX && k > 0.45)
      this.drawLinkLabels(context, scene, shown, k, taken);
  }

  /** Draws links, those of the same look in a row. One path of many lines would be slow. */
  private drawLinks(context: Context, scene: Scene, view: Viewport) {
    const { links, places, palette } = scene;
    if (this.sorted.from !== links) this.sorted = { from: links, looks: sortByLook(links) };
    const hasDashes = links.length <= DASHED_LINKS_MAX;
    const isWide = links.length <= WIDE_LINKS_MAX;
    // A line of at most one pixel of the screen is drawn several times as fast as a wider one.
    const thin = 1 / (view.k * view.ratio);
    const [left, top] = [-view.x / view.k, -view.y / view.k];
    const [right, bottom] = [left + view.width / view.k, top + view.height / view.k];
    for (const [look, ofLook] of this.sorted.looks) {
      const [health, width] = [HEALTHS[look >> 4]!, look & 15];
      const isBad = health === 'failed' || health === 'warning';
      context.strokeStyle = isBad
        ? palette.health[health]
        : width > 1
          ? palette.accent
          : palette.line;
      context.setLineDash(health === 'failed' && hasDashes ? [5, 4] : []);
      context.lineWidth = isWide ? width : Math.min(thin, width);
      for (const { from, to } of ofLook) {
        const [a, b] = [places.get(from), places.get(to)];
        if (!a || !b) continue;
        if ((a.x < left && b.x < left) || (a.x > right && b.x > right)) continue;
        if ((a.y < top && b.y < top) || (a.y > bottom && b.y > bottom)) continue;
        context.beginPath();
        context.moveTo(a.x, a.y);
        context.lineTo(b.x, b.y);
        context.stroke();
      }
    }
    context.setLineDash([]);
  }

  /**
   * Draws labels that do not cover each other: selected and failed nodes first. Returns the cells
   * that they cover.
   */
  private drawLabels(
    context: Context,
    scene: Scene,
    shown: Shown[],
    k: number,
    count: number,
  ): Set<number> {
    const { palette, selected } = scene;
    const taken = new Set<number>();
    const withHalo = count <= HALO_MAX;
    const hasNotes = count <= DETAIL_MAX && k > 0.55;
    context.textAlign = 'center';
    context.textBaseline = 'top';
    context.strokeStyle = palette.background;
    context.lineWidth = 5;
    context.lineJoin = 'round';
    context.font = '12px system-ui, sans-serif';
    const write = (text: string, x: number, y: number, color: string) => {
      if (withHalo) context.strokeText(text, x, y);
      context.fillStyle = color;
      context.fillText(text, x, y);
    };
    for (const { node, place } of byImportance(shown, selected)) {
      const isSelected = node.id === selected;
      const label = shorten(node.label);
      const [x, y] = [place.x * k, (place.y + RADIUS + (isSelected ? 8 : 0)) * k + 5];
      const cells = coveredCells(x, y, this.textWidth(context, label));
      if (!isSelected && cells.some((cell) => taken.has(cell))) continue;
      cells.forEach((cell) => taken.add(cell));
      write(label, x, y, palette.text);
      const note = hasNotes ? scene.nodeNote(node) : '';
      if (!note) continue;
      const below = coveredCells(x, y + LABEL_LINE, this.textWidth(context, note) + NOTE_GAP);
      if (below.some((cell) => taken.has(cell) && !cells.includes(cell))) continue;
      below.forEach((cell) => taken.add(cell));
      write(note, x, y + LABEL_LINE, palette.muted);
    }
    return taken;
  }

  /** Draws labels of links where they cover nothing. */
  private drawLinkLabels(
    context: Context,
    { links, places, palette, linkLabel }: Scene,
    shown: Shown[],
    k: number,
    taken: Set<number>,
  ) {
    const reach = RADIUS * k;
    for (const { place } of shown) {
      const [x, y] = [place.x * k, place.y * k];
      for (let row = y - reach; row < y + reach; row += LABEL_CELL[1])
        coveredCells(x, row, reach * 2).forEach((cell) => taken.add(cell));
    }
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.lineWidth = 1;
    context.strokeStyle = palette.line;
    for (const link of links) {
      const [a, b] = [places.get(link.from), places.get(link.to)];
      const text = linkLabel(link);
      if (!a || !b || !text) continue;
      const width = context.measureText(text).width + 12;
      const at = LINK_LABEL_PLACES.map((part) => ({
        x: (a.x + (b.x - a.x) * part) * k,
        y: (a.y + (b.y - a.y) * part) * k,
      })).find(({ x, y }) => !coveredCells(x, y - 9, width).some((cell) => taken.has(cell)));
      if (!at) continue;
      const { x, y } = at;
      coveredCells(x, y - 9, width).forEach((cell) => taken.add(cell));
      context.beginPath();
      context.roundRect(x - width / 2, y - 9, width, 18, 9);
      context.fillStyle = palette.node;
      context.fill();
      context.stroke();
      context.fillStyle = palette.text;
      context.fillText(text, x, y);
    }
  }

  /** Returns the width of a text in the font of labels. */
  private textWidth(context: Context, text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.widths.size > WIDTHS_MAX) this.widths.clear();
      width = context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }
}

function insideOf({ x, y, k, width, height }: Viewport): (place?: Place) => place is Place {
  const [left, top] = [(-OUTSIDE - x) / k, (-OUTSIDE - y) / k];
  const [right, bottom] = [(width + OUTSIDE - x) / k, (height + OUTSIDE - y) / k];
  return (place): place is Place =>
    place !== undefined && place.x > left && place.x < right && place.y > top && place.y < bottom;
}

function shownNodes({ nodes, places, isFound }: Scene, view: Viewport): Shown[] {
  const isInside = insideOf(view);
  const shown: Shown[] = [];
  for (const node of nodes) {
    const place = places.get(node.id);
    if (isInside(place)) shown.push({ node, place, isDim: isFound ? !isFound(node) : false });
  }
  return shown;
}

/** Returns the nodes whose labels are wanted: the selected one, then those with trouble. */
function byImportance(shown: Shown[], selected: string | undefined): Shown[] {
  const ranks: Shown[][] = [[], [], [], []];
  for (const item of shown) {
    const { id, health } = item.node;
    if (id === selected) ranks[0]!.push(item);
    else if (!item.isDim) ranks[health === 'failed' ? 1 : health === 'warning' ? 2 : 3]!.push(item);
  }
  return ranks.flat();
}

function drawRing(context: Context, { x, y }: Place, palette: Palette) {
  context.beginPath();
  context.arc(x, y, RADIUS + 7, 0, 2 * Math.PI);
  context.strokeStyle = palette.text;
  context.lineWidth = 2;
  context.stroke();
}

const shorten = (label: string): string =>
  label.length > LABEL_LETTERS_MAX ? `${label.slice(0, LABEL_LETTERS_MAX - 1)}…` : label;

/** Returns the cells of the grid that keeps labels apart. */
function coveredCells(x: number, y: number, width: number): number[] {
  const cells: number[] = [];
  const row = Math.floor(y / LABEL_CELL[1]);
  const last = Math.floor((x + width / 2) / LABEL_CELL[0]);
  for (let column = Math.floor((x - width / 2) / LABEL_CELL[0]); column <= last; column += 1)
    cells.push(row * 8192 + column, (row + 1) * 8192 + column);
  return cells;
}

/** Returns links by their look: health above the four bits of the width. */
function sortByLook(links: MapLink[]): [number, MapLink[]][] {
  const looks = new Map<number, MapLink[]>();
  for (const link of links) {
    const rate = Number(link.values['rate'] ?? 0);
    const look = (HEALTHS.indexOf(link.health) << 4) | linkWidth(rate);
    const known = looks.get(look);
    if (known) known.push(link);
    else looks.set(look, [link]);
  }
  return [...looks].sort(([a], [b]) => a - b);
}

/** Returns the width of a link in steps, so that there are few looks. */
function linkWidth(rate: number): number {
  return rate <= 0.05 ? 1 : Math.min(9, 2 + Math.floor(Math.log10(1 + rate) * 1.4));
}

// The drawing of a map on one canvas: layout, pan and zoom, dragging, selection. It draws a frame
// only when something has changed. Places stay: a node that has one is moved by a person only.

import { select } from 'd3-selection';
import { zoom, zoomIdentity, type ZoomBehavior, type ZoomTransform } from 'd3-zoom';
import type { LayoutReply, LayoutRequest } from './layout.worker';
import type { Health, MapGraph, MapLink, MapNode } from './model';
import { outline, shapeOf, SIGNS, type Palette, type Shape } from './shapes';

export interface MapOptions {
  /** Called when a person selects a node, or none. */
  onSelect(id: string | undefined): void;
  /** Name under which places are kept in this browser. Empty: the server keeps them. */
  storageKey: string;
  /** Called when a person has moved a node. */
  onMove?(id: string, place: { x: number; y: number }): void;
  palette(): Palette;
  /** Text of a link's label. */
  linkLabel(link: MapLink): string;
}

type Place = { x: number; y: number };

const RADIUS = 13;
/** Places that are kept in the browser. */
const PLACES_MAX = 3000;
/** Cell of the grid that keeps labels apart, pixels. */
const LABEL_CELL = [16, 12] as const;
/** Labels have a halo in maps of up to this many nodes; more would be slow. */
const HALO_MAX = 120;
const LINK_LABELS_MAX = 250;
/** Dashes are slow to draw without a GPU. */
const DASHED_LINKS_MAX = 400;
/** In larger maps the width of links does not show the rate: too much would be covered. */
const WIDE_LINKS_MAX = 800;

export class MapCanvas {
  private readonly context: CanvasRenderingContext2D;
  private readonly worker = new Worker('/layout.js');
  private readonly zoom: ZoomBehavior<HTMLCanvasElement, unknown>;
  private readonly resizes: ResizeObserver;
  private transform: ZoomTransform = zoomIdentity;
  private graph: MapGraph = { nodes: [], links: [] };
  /** Links by their look. */
  private sortedLinks: MapLink[] = [];
  private places = new Map<string, Place>();
  private selected: string | undefined;
  private isFound: ((node: MapNode) => boolean) | undefined;
  private dragged: { id: string; moved: boolean } | undefined;
  private version = 0;
  private frame = 0;
  private hasFitted = false;
  /** The view shows all nodes, and no person has moved it since. */
  private showsAll = false;
  private pixelRatio = 1;
  private labelWidths = new Map<string, number>();
  /** Number of drawn frames, for measurements. */
  frames = 0;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly options: MapOptions,
  ) {
    this.context = canvas.getContext('2d', { alpha: false })!;
    this.loadPlaces();
    this.zoom = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([0.05, 6])
      .filter(
        (event: Event) =>
          !(event as MouseEvent).button &&
          (event.type === 'wheel' || !this.nodeAt(event as PointerEvent)),
      )
      .on(
        'zoom',
        ({ transform, sourceEvent }: { transform: ZoomTransform; sourceEvent: unknown }) => {
          if (sourceEvent) this.showsAll = false;
          this.transform = transform;
          this.redraw();
        },
      );
    select(canvas).call(this.zoom).on('dblclick.zoom', null);
    canvas.addEventListener('pointerdown', this.onDown);
    canvas.addEventListener('pointermove', this.onMove);
    canvas.addEventListener('pointerup', this.onUp);
    canvas.addEventListener('keydown', this.onKey);
    this.worker.onmessage = ({ data }: MessageEvent<LayoutReply>) => this.onLayout(data);
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(canvas);
    this.resize();
  }

  destroy(): void {
    this.worker.terminate();
    this.resizes.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** Shows a graph. New nodes get a place; all others stay where they are. */
  setGraph(graph: MapGraph): void {
    this.graph = graph;
    this.sortedLinks = [...graph.links].sort((a, b) => lookOf(a).localeCompare(lookOf(b)));
    for (const { id, x, y } of graph.nodes) {
      if (x !== undefined && y !== undefined && !this.places.has(id)) this.places.set(id, { x, y });
    }
    if (graph.nodes.some(({ id }) => !this.places.has(id))) this.layOut(false);
    else if (!this.hasFitted) this.fit();
    this.redraw();
  }

  setFound(isFound: ((node: MapNode) => boolean) | undefined): void {
    this.isFound = isFound;
    this.redraw();
  }

  setSelected(id: string | undefined): void {
    this.selected = id;
    this.redraw();
  }

  /** Moves the view so that a node is in the middle. */
  show(id: string): void {
    const place = this.places.get(id);
    if (place) select(this.canvas).call(this.zoom.translateTo, place.x, place.y);
  }

  /** Places all nodes again. */
  arrange(): void {
    this.places.clear();
    this.hasFitted = false;
    this.setGraph(this.graph);
  }

  /** Zooms so that all nodes are visible. */
  fit(): void {
    const places = this.graph.nodes.flatMap(({ id }) => this.places.get(id) ?? []);
    const { width, height } = this.size();
    if (places.length === 0 || width === 0) return;
    const [xs, ys] = [places.map(({ x }) => x), places.map(({ y }) => y)];
    const [left, right] = [Math.min(...xs) - 70, Math.max(...xs) + 70];
    const [top, bottom] = [Math.min(...ys) - 50, Math.max(...ys) + 60];
    const scale = Math.min(1.6, width / (right - left), height / (bottom - top));
    const target = zoomIdentity
      .translate(width / 2, height / 2)
      .scale(scale)
      .translate(-(left + right) / 2, -(top + bottom) / 2);
    select(this.canvas).call(this.zoom.transform, target);
    this.hasFitted = true;
    this.showsAll = true;
  }

  zoomBy(factor: number): void {
    this.showsAll = false;
    select(this.canvas).call(this.zoom.scaleBy, factor);
  }

  panBy(x: number, y: number): void {
    this.showsAll = false;
    select(this.canvas).call(this.zoom.translateBy, x / this.transform.k, y / this.transform.k);
  }

  /** Draws in the next frame. */
  redraw(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private size() {
    return { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
  }

  private resize() {
    const { width, height } = this.size();
    this.pixelRatio = Math.min(2, window.devicePixelRatio || 1);
    this.canvas.width = Math.max(1, Math.round(width * this.pixelRatio));
    this.canvas.height = Math.max(1, Math.round(height * this.pixelRatio));
    if (!this.hasFitted || this.showsAll) this.fit();
    this.redraw();
  }

  private layOut(moveAll: boolean) {
    this.version += 1;
    const ids = new Set(this.graph.nodes.map(({ id }) => id));
    const request: LayoutRequest = {
      version: this.version,
      nodes: this.graph.nodes.map(({ id }) => {
        const place = this.places.get(id);
        return { id, x: place?.x, y: place?.y, isFixed: place !== undefined && !moveAll };
      }),
      links: this.graph.links
        .filter(({ from, to }) => ids.has(from) && ids.has(to))
        .map(({ from, to }) => ({ source: from, target: to })),
    };
    this.worker.postMessage(request);
  }

  private onLayout({ version, ids, places, isFinal }: LayoutReply) {
    if (version !== this.version) return;
    ids.forEach((id, index) => {
      if (this.dragged?.id !== id)
        this.places.set(id, { x: places[index * 2]!, y: places[index * 2 + 1]! });
    });
    if (!this.hasFitted || isFinal) {
      const wasFitted = this.hasFitted;
      if (!wasFitted) this.fit();
      this.hasFitted = wasFitted || isFinal;
    }
    if (isFinal) this.storePlaces();
    this.redraw();
  }

  private loadPlaces() {
    if (!this.options.storageKey) return;
    try {
      const stored = JSON.parse(localStorage.getItem(this.options.storageKey) ?? '[]') as [
        string,
        number,
        number,
      ][];
      this.places = new Map(stored.map(([id, x, y]) => [id, { x, y }]));
    } catch {
      this.places = new Map();
    }
  }

  private storePlaces() {
    if (!this.options.storageKey) return;
    const shown = this.graph.nodes.slice(0, PLACES_MAX);
    const rows = shown.flatMap(({ id }) => {
      const place = this.places.get(id);
      return place ? [[id, Math.round(place.x), Math.round(place.y)]] : [];
    });
    localStorage.setItem(this.options.storageKey, JSON.stringify(rows));
  }

  private nodeAt(event: { clientX: number; clientY: number }): MapNode | undefined {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = this.transform.invert([event.clientX - box.left, event.clientY - box.top]);
    const reach = Math.max(RADIUS + 3, 10 / this.transform.k);
    return this.graph.nodes.findLast(({ id }) => {
      const place = this.places.get(id);
      return place && Math.hypot(place.x - x, place.y - y) <= reach;
    });
  }

  private onDown = (event: PointerEvent) => {
    if (event.button) return;
    const node = this.nodeAt(event);
    if (node) {
      this.dragged = { id: node.id, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
    } else {
      this.options.onSelect(undefined);
    }
  };

  private onMove = (event: PointerEvent) => {
    if (!this.dragged) {
      this.canvas.style.cursor = this.nodeAt(event) ? 'pointer' : 'grab';
      return;
    }
    if (!event.movementX && !event.movementY) return;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = this.transform.invert([event.clientX - box.left, event.clientY - box.top]);
    this.places.set(this.dragged.id, { x, y });
    this.dragged.moved = true;
    this.redraw();
  };

  private onUp = () => {
    if (!this.dragged) return;
    const { id, moved } = this.dragged;
    this.dragged = undefined;
    if (!moved) return this.options.onSelect(id);
    this.storePlaces();
    this.options.onMove?.(id, this.places.get(id)!);
  };

  private onKey = (event: KeyboardEvent) => {
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.panBy(60, 0),
      ArrowRight: () => this.panBy(-60, 0),
      ArrowUp: () => this.panBy(0, 60),
      ArrowDown: () => this.panBy(0, -60),
      '+': () => this.zoomBy(1.25),
      '-': () => this.zoomBy(0.8),
      '0': () => this.fit(),
      Escape: () => this.options.onSelect(undefined),
    };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    action();
  };

  private draw() {
    const { context } = this;
    const palette = this.options.palette();
    const { width, height } = this.size();
    this.frames += 1;
    context.setTransform(this.pixelRatio, 0, 0, this.pixelRatio, 0, 0);
    context.fillStyle = palette.background;
    context.fillRect(0, 0, width, height);
    context.translate(this.transform.x, this.transform.y);
    context.scale(this.transform.k, this.transform.k);
    const shown = this.visibleNodes(width, height);
    this.drawLinks(palette);
    this.drawNodes(shown, palette);
    context.setTransform(this.pixelRatio, 0, 0, this.pixelRatio, 0, 0);
    if (this.graph.links.length <= LINK_LABELS_MAX && this.transform.k > 0.55)
      this.drawLinkLabels(palette);
    this.drawLabels(shown, palette);
  }

  private visibleNodes(width: number, height: number): { node: MapNode; place: Place }[] {
    const [left, top] = this.transform.invert([-60, -60]);
    const [right, bottom] = this.transform.invert([width + 60, height + 60]);
    return this.graph.nodes.flatMap((node) => {
      const place = this.places.get(node.id);
      const isInside =
        place && place.x > left && place.x < right && place.y > top && place.y < bottom;
      return isInside ? [{ node, place }] : [];
    });
  }

  /** Draws links, those of the same look in a row. One path of many lines would be slow. */
  private drawLinks(palette: Palette) {
    const { context } = this;
    const hasDashes = this.graph.links.length <= DASHED_LINKS_MAX;
    const widthMax = this.graph.links.length <= WIDE_LINKS_MAX ? Infinity : 2;
    let look = '';
    for (const link of this.sortedLinks) {
      const [a, b] = [this.places.get(link.from), this.places.get(link.to)];
      if (!a || !b) continue;
      const width = Math.min(widthMax, linkWidth(Number(link.values['rate'] ?? 0)));
      const own = `${link.health} ${width}`;
      if (own !== look) {
        look = own;
        const { health } = link;
        const isBad = health === 'failed' || health === 'warning';
        context.strokeStyle = isBad
          ? palette.health[health]
          : width > 1
            ? palette.accent
            : palette.line;
        context.setLineDash(health === 'failed' && hasDashes ? [5, 4] : []);
        context.lineWidth = width;
      }
      context.beginPath();
      context.moveTo(a.x, a.y);
      context.lineTo(b.x, b.y);
      context.stroke();
    }
    context.setLineDash([]);
  }

  private drawNodes(shown: { node: MapNode; place: Place }[], palette: Palette) {
    const { context } = this;
    const looks = new Map<string, { path: Path2D; health: Health; isDim: boolean }>();
    for (const { node, place } of shown) {
      const isDim = this.isFound !== undefined && !this.isFound(node);
      const shape: Shape = shapeOf(node.kind);
      const key = `${node.health} ${isDim}`;
      const look = looks.get(key) ?? { path: new Path2D(), health: node.health, isDim };
      looks.set(key, look);
      if (node.values['clones']) outline(look.path, shape, place.x + 5, place.y - 5, RADIUS);
      outline(look.path, shape, place.x, place.y, RADIUS);
    }
    for (const { path, health, isDim } of looks.values()) {
      context.globalAlpha = isDim ? 0.25 : 1;
      context.fillStyle = palette.node;
      context.fill(path);
      context.strokeStyle = palette.health[health];
      context.lineWidth = health === 'idle' ? 1.5 : 3;
      context.stroke(path);
    }
    context.globalAlpha = 1;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.font = 'bold 15px system-ui, sans-serif';
    for (const { node, place } of shown) {
      if (node.id === this.selected) this.drawRing(place, palette);
      const sign = SIGNS[node.health];
      if (!sign) continue;
      context.fillStyle = palette.health[node.health];
      context.fillText(sign, place.x, place.y + 1);
    }
  }

  private drawRing(place: Place, palette: Palette) {
    this.context.beginPath();
    this.context.arc(place.x, place.y, RADIUS + 7, 0, 2 * Math.PI);
    this.context.strokeStyle = palette.text;
    this.context.lineWidth = 2;
    this.context.stroke();
  }

  private drawLinkLabels(palette: Palette) {
    const { context } = this;
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (const link of this.graph.links) {
      const [a, b] = [this.places.get(link.from), this.places.get(link.to)];
      const text = this.options.linkLabel(link);
      if (!a || !b || !text) continue;
      const [x, y] = this.transform.apply([(a.x + b.x) / 2, (a.y + b.y) / 2]);
      const width = context.measureText(text).width + 8;
      context.fillStyle = palette.background;
      context.fillRect(x - width / 2, y - 8, width, 16);
      context.fillStyle = palette.text;
      context.fillText(text, x, y);
    }
  }

  /** Draws labels that do not cover each other: selected and failed nodes first. */
  private drawLabels(shown: { node: MapNode; place: Place }[], palette: Palette) {
    const { context } = this;
    const taken = new Set<number>();
    const withHalo = shown.length <= HALO_MAX;
    context.font = '12px system-ui, sans-serif';
    context.textAlign = 'center';
    context.textBaseline = 'top';
    context.strokeStyle = palette.background;
    context.lineWidth = 4;
    context.lineJoin = 'round';
    context.fillStyle = palette.text;
    const drawOne = ({ node, place }: { node: MapNode; place: Place }) => {
      const label = node.label.length > 30 ? `${node.label.slice(0, 29)}…` : node.label;
      const [x, middle] = this.transform.apply([place.x, place.y]);
      const ring = node.id === this.selected ? 8 : 0;
      const y = middle + (RADIUS + ring) * this.transform.k + 5;
      const cells = coveredCells(x, y, this.labelWidth(label));
      if (node.id !== this.selected && cells.some((cell) => taken.has(cell))) return;
      cells.forEach((cell) => taken.add(cell));
      if (withHalo) context.strokeText(label, x, y);
      context.fillText(label, x, y);
    };
    const rank = ({ node }: { node: MapNode }) =>
      node.id === this.selected
        ? 0
        : node.health === 'failed'
          ? 1
          : node.health === 'warning'
            ? 2
            : 3;
    const wanted = this.isFound
      ? shown.filter(({ node }) => this.isFound!(node) || node.id === this.selected)
      : shown;
    for (const level of [0, 1, 2, 3]) {
      for (const item of wanted) if (rank(item) === level) drawOne(item);
    }
  }

  private labelWidth(label: string): number {
    let width = this.labelWidths.get(label);
    if (width === undefined) {
      if (this.labelWidths.size > PLACES_MAX) this.labelWidths.clear();
      width = this.context.measureText(label).width;
      this.labelWidths.set(label, width);
    }
    return width;
  }
}

/** Returns the cells of the grid that keeps labels apart. */
function coveredCells(x: number, y: number, width: number): number[] {
  const cells: number[] = [];
  const last = Math.floor((x + width / 2) / LABEL_CELL[0]);
  for (let column = Math.floor((x - width / 2) / LABEL_CELL[0]); column <= last; column += 1) {
    const row = Math.floor(y / LABEL_CELL[1]);
    cells.push(row * 8192 + column, (row + 1) * 8192 + column);
  }
  return cells;
}

const lookOf = ({ health, values }: MapLink): string =>
  `${health} ${linkWidth(Number(values['rate'] ?? 0))}`;

/** Returns the width of a link in steps, so that few paths are drawn. */
function linkWidth(rate: number): number {
  return rate <= 0.05 ? 1 : Math.min(9, 2 + Math.floor(Math.log10(1 + rate) * 1.4));
}

// The drawing of a map on one canvas: layout, pan and zoom, dragging, selection. It draws a frame
// only when something has changed. Places stay: a node that has one is moved by a person only.

import { select } from 'd3-selection';
import { zoom, zoomIdentity, type ZoomBehavior, type ZoomTransform } from 'd3-zoom';
import type { LayoutReply, LayoutRequest } from './layout.worker';
import type { MapGraph, MapLink, MapNode } from './model';
import { countShown, ScenePainter, type Place, type Scene, type Viewport } from './scene';
import type { Palette } from './shapes';
import { RADIUS } from './sprites';

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
  /** Second line of a node's label. */
  nodeNote?(node: MapNode): string;
}

/** Places that are kept in the browser. */
const PLACES_MAX = 3000;
/** How far the picture for moves reaches beyond the view, pixels of the page. */
const BACKDROP_MARGIN = 160;

export class MapCanvas {
  private readonly context: CanvasRenderingContext2D;
  private readonly worker = new Worker('/layout.js');
  private readonly zoom: ZoomBehavior<HTMLCanvasElement, unknown>;
  private readonly resizes: ResizeObserver;
  private transform: ZoomTransform = zoomIdentity;
  private graph: MapGraph = { nodes: [], links: [] };
  private places = new Map<string, Place>();
  private selected: string | undefined;
  private isFound: ((node: MapNode) => boolean) | undefined;
  private dragged: { id: string; moved: boolean } | undefined;
  private layoutVersion = 0;
  private frame = 0;
  private hasFitted = false;
  /** The view shows all nodes, and no person has moved it since. */
  private showsAll = false;
  /** A wide map in a narrow view is drawn from top to bottom: x and y of places are exchanged. */
  private isTurned = false;
  private ratio = 1;
  private readonly painter = new ScenePainter();
  /** Increases with each change of what is drawn, except its place. */
  private version = 0;
  /** What the last frame has shown. */
  private drawn = { version: -1, k: 0 };
  /** A picture that reaches beyond the view: while a map only moves, frames are copies of it. */
  private readonly backdrop: { canvas?: OffscreenCanvas; view?: Viewport; version: number } = {
    version: -1,
  };
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
          this.requestFrame();
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
    for (const { id, x, y } of graph.nodes) {
      if (x !== undefined && y !== undefined && !this.places.has(id))
        this.places.set(id, this.turned({ x, y }));
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
    this.isTurned = false;
    this.hasFitted = false;
    this.setGraph(this.graph);
  }

  /** Zooms so that all nodes and their labels are visible. */
  fit(): void {
    this.turn();
    const area = this.area();
    const { width, height } = this.size();
    if (!area || width === 0) return;
    // Labels keep their size at every zoom, so the space for them is in pixels of the page.
    const [side, above, below] = [Math.min(64, width * 0.17), 34, 54];
    const scale = Math.min(
      1.8,
      (width - 2 * side) / (area.right - area.left + 2 * RADIUS),
      (height - above - below) / (area.bottom - area.top + 2 * RADIUS),
    );
    const target = zoomIdentity
      .translate(width / 2, (height + above - below) / 2)
      .scale(Math.max(0.02, scale))
      .translate(-(area.left + area.right) / 2, -(area.top + area.bottom) / 2);
    select(this.canvas).call(this.zoom.transform, target);
    this.hasFitted = true;
    this.showsAll = true;
  }

  /** Returns the area of all places. */
  private area() {
    const places = this.graph.nodes.flatMap(({ id }) => this.places.get(id) ?? []);
    if (places.length === 0) return undefined;
    const [xs, ys] = [places.map(({ x }) => x), places.map(({ y }) => y)];
    const [left, right] = [Math.min(...xs), Math.max(...xs)];
    return { left, right, top: Math.min(...ys), bottom: Math.max(...ys) };
  }

  /** Decides whether a map with places of the server is drawn from top to bottom. */
  private turn() {
    const area = this.area();
    const { width, height } = this.size();
    if (!area) return;
    const sides = [area.right - area.left, area.bottom - area.top];
    const [wide, high] = this.isTurned ? [sides[1]!, sides[0]!] : [sides[0]!, sides[1]!];
    const hasPlaces = this.graph.nodes.some(({ x }) => x !== undefined);
    const isTurned = hasPlaces && width < height && wide > 1.5 * high;
    if (isTurned === this.isTurned) return;
    for (const [id, { x, y }] of this.places) this.places.set(id, { x: y, y: x });
    this.isTurned = isTurned;
    this.redraw();
  }

  /** Returns a place as it is drawn, or one that is drawn as it is kept. */
  private turned({ x, y }: Place): Place {
    return this.isTurned ? { x: y, y: x } : { x, y };
  }

  zoomBy(factor: number): void {
    this.showsAll = false;
    select(this.canvas).call(this.zoom.scaleBy, factor);
  }

  panBy(x: number, y: number): void {
    this.showsAll = false;
    select(this.canvas).call(this.zoom.translateBy, x / this.transform.k, y / this.transform.k);
  }

  /** Draws everything again in the next frame. */
  redraw(): void {
    this.version += 1;
    this.requestFrame();
  }

  private requestFrame() {
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
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    this.canvas.width = Math.max(1, Math.round(width * this.ratio));
    this.canvas.height = Math.max(1, Math.round(height * this.ratio));
    if (!this.hasFitted || this.showsAll) this.fit();
    this.redraw();
  }

  private layOut(moveAll: boolean) {
    this.layoutVersion += 1;
    const ids = new Set(this.graph.nodes.map(({ id }) => id));
    const request: LayoutRequest = {
      version: this.layoutVersion,
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
    if (version !== this.layoutVersion) return;
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
      if (!place) return [];
      const { x, y } = this.turned(place);
      return [[id, Math.round(x), Math.round(y)]];
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
    this.options.onMove?.(id, this.turned(this.places.get(id)!));
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
    this.frames += 1;
    const { ratio } = this;
    // Whole pixels of the screen, so that a moved picture is a copy of the one before.
    const snap = (value: number) => Math.round(value * ratio) / ratio;
    const { x, y, k } = this.transform;
    const view: Viewport = { x: snap(x), y: snap(y), k, ratio, ...this.size() };
    const isOnlyMoved = this.drawn.version === this.version && this.drawn.k === k;
    this.drawn = { version: this.version, k };
    if (isOnlyMoved) this.copyBackdrop(view);
    else this.painter.draw(this.context, this.scene(), view, countShown(this.scene(), view));
  }

  /** Draws a map that has only moved: from a picture that reaches beyond the view. */
  private copyBackdrop(view: Viewport) {
    const isCovered = ({ x, y, width, height }: Viewport) =>
      view.x <= x &&
      view.y <= y &&
      view.x - x >= view.width - width &&
      view.y - y >= view.height - height;
    const { backdrop, version } = this;
    const isValid = backdrop.version === version && backdrop.view?.k === view.k;
    if (!isValid || !isCovered(backdrop.view!)) {
      const [x, y] = [view.x + BACKDROP_MARGIN, view.y + BACKDROP_MARGIN];
      const [width, height] = [view.width, view.height].map((side) => side + 2 * BACKDROP_MARGIN);
      backdrop.view = { ...view, x, y, width: width!, height: height! };
      backdrop.version = version;
      backdrop.canvas ??= new OffscreenCanvas(1, 1);
      const [across, down] = [Math.ceil(width! * view.ratio), Math.ceil(height! * view.ratio)];
      if (backdrop.canvas.width !== across || backdrop.canvas.height !== down)
        Object.assign(backdrop.canvas, { width: across, height: down });
      const context = backdrop.canvas.getContext('2d', { alpha: false })!;
      this.painter.draw(context, this.scene(), backdrop.view, countShown(this.scene(), view));
    }
    const { x, y } = backdrop.view!;
    this.context.setTransform(1, 0, 0, 1, 0, 0);
    const [left, top] = [(view.x - x) * view.ratio, (view.y - y) * view.ratio];
    this.context.drawImage(backdrop.canvas!, Math.round(left), Math.round(top));
  }

  private scene(): Scene {
    const { graph, places, selected, isFound, options } = this;
    return {
      ...graph,
      places,
      selected,
      isFound,
      palette: options.palette(),
      linkLabel: options.linkLabel,
      nodeNote: options.nodeNote ?? (() => ''),
    };
  }
}

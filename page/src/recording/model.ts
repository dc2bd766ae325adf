// A recorded run translated for the map: one graph for each frame, and curves of its totals.

import type { MapGraph, MapLink, MapNode } from '../map/model';
import { Curves } from '../router/model';
import type { components } from '../types/router';

export type Recording = components['schemas']['Recording'];
type State = components['schemas']['RecordedState'];

/** Frames that are kept; a run that goes on longer loses its oldest. */
const FRAMES_MAX = 2000;
/** Most curves. */
export const TOTALS_MAX = 3;

export class RecordingModel {
  recording: Recording | undefined;
  /** Names of the totals, in the order of the curves. */
  totals: string[] = [];
  curves = new Curves(0);
  /** What happened, by frame. */
  events: { index: number; atMs: number; text: string }[] = [];

  /** Number of the frame that is wanted next. */
  get next(): number {
    const { recording } = this;
    return recording ? recording.frames_before! + recording.frames.length : 0;
  }

  /** Adds frames to those that are known. */
  add(part: Recording): void {
    const known = this.recording?.frames ?? [];
    const frames = [...known, ...part.frames].slice(-FRAMES_MAX);
    const before = part.frames_before! + part.frames.length - frames.length;
    this.recording = { ...part, frames, frames_before: before };
    if (part.frames.length === 0 && known.length > 0) return;
    this.totals = Object.keys(frames.at(-1)?.totals ?? {}).slice(0, TOTALS_MAX);
    this.curves = new Curves(this.totals.length);
    for (const { at_ms, totals } of frames)
      this.curves.add(
        at_ms,
        this.totals.map((name) => totals?.[name] ?? 0),
      );
    this.events = frames.flatMap(({ at_ms, text }, index) =>
      text ? [{ index, atMs: at_ms, text }] : [],
    );
  }

  /** Returns the graph of a frame. Nodes that are absent in it are left out. */
  graphOf(index: number): MapGraph {
    const { recording } = this;
    const frame = recording?.frames[index];
    if (!recording || !frame) return { nodes: [], links: [] };
    const spread = 120 * Math.sqrt(Math.max(9, recording.nodes.length));
    const nodes = recording.nodes.flatMap(({ name, kind, x, y }, at): MapNode[] => {
      const state = frame.nodes[at];
      if (!state || state.health === 'absent') return [];
      const node: MapNode = {
        id: name,
        label: name,
        kind,
        health: state.health,
        values: valuesOf(state),
      };
      if (x != null && y != null) [node.x, node.y] = [x * spread * 1.5, y * spread];
      return [node];
    });
    const shown = new Set(nodes.map(({ id }) => id));
    const links = recording.links.flatMap(({ from, to }, at): MapLink[] => {
      const state = frame.links[at];
      const [a, b] = [recording.nodes[from]!.name, recording.nodes[to]!.name];
      if (!state || state.health === 'absent' || !shown.has(a) || !shown.has(b)) return [];
      return [{ id: `${at}`, from: a, to: b, health: state.health, values: valuesOf(state) }];
    });
    return { nodes, links };
  }
}

const valuesOf = ({ rate, dropped }: State) => ({ rate, dropped });

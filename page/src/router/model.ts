// The state of a router as the events describe it, with rates and their history.

import type { components } from '../types/router';

export type Schemas = components['schemas'];
export type Face = Schemas['FaceStatus'];
export type Change = Schemas['RouterChange'];
export type LogLine = Schemas['LogLine'];

/** Packets and bytes per second of a face. */
export interface Rates {
  inInterests: number;
  inData: number;
  inBytes: number;
  outInterests: number;
  outData: number;
  outBytes: number;
}

const NO_RATES: Rates = {
  inInterests: 0,
  inData: 0,
  inBytes: 0,
  outInterests: 0,
  outData: 0,
  outBytes: 0,
};
/** Samples of a curve: five minutes, three a second. */
const SAMPLES_MAX = 1000;
const LOG_MAX = 500;
/** Curves of faces are kept for this many faces. */
const CURVES_MAX = 200;
/** Weight of the newest sample in a smoothed rate. */
const SMOOTHING = 0.4;

/** Curves with one time axis. */
export class Curves {
  readonly times: number[] = [];
  readonly values: number[][];

  constructor(lines: number) {
    this.values = Array.from({ length: lines }, () => []);
  }

  add(atMs: number, values: number[]) {
    this.times.push(atMs / 1000);
    values.forEach((value, line) => this.values[line]!.push(value));
    if (this.times.length > SAMPLES_MAX) {
      this.times.shift();
      this.values.forEach((line) => line.shift());
    }
  }
}

export class RouterModel {
  status: Schemas['RouterStatus'] | undefined;
  faces = new Map<number, Face>();
  rates = new Map<number, Rates>();
  drops: Schemas['DropCount'][] = [];
  done: Schemas['DropCount'][] = [];
  routes: Schemas['RibEntry'][] = [];
  strategies: Schemas['StrategyChoice'][] = [];
  top: Schemas['TopPrefixes'] | undefined;
  log: LogLine[] = [];
  isTruncated = false;
  atMs = 0;
  /** Interests received, Data received, Data sent, drops, each per second. */
  readonly curves = new Curves(4);
  /** Received and sent bits per second of each face. */
  readonly faceCurves = new Map<number, Curves>();
  total: Rates = NO_RATES;
  dropRate = 0;

  apply(change: Change): void {
    const seconds = (change.at_ms - this.atMs) / 1000;
    const isFirst = this.atMs === 0 || change.is_snapshot;
    this.atMs = change.at_ms;
    if (change.is_snapshot) {
      const ids = new Set(change.faces?.map((face) => face.face_id));
      for (const id of [...this.faces.keys()]) if (!ids.has(id)) this.removeFace(id);
      this.log = [];
    }
    this.status = change.status ?? this.status;
    const dropsBefore = sum(this.drops);
    this.drops = change.drops ?? this.drops;
    this.done = change.done ?? this.done;
    this.routes = change.routes ?? this.routes;
    this.strategies = change.strategies ?? this.strategies;
    this.top = change.top ?? this.top;
    this.isTruncated = change.is_truncated;
    if (change.log) this.log = [...this.log, ...change.log].slice(-LOG_MAX);
    change.removed_faces?.forEach((id) => this.removeFace(id));
    this.updateRates(change.faces ?? [], isFirst ? 0 : seconds);
    if (isFirst) return;
    this.dropRate = seconds > 0 ? (sum(this.drops) - dropsBefore) / seconds : 0;
    const { inInterests, inData, outData } = this.total;
    this.curves.add(change.at_ms, [inInterests, inData, outData, this.dropRate]);
  }

  private updateRates(changed: Face[], seconds: number) {
    const before = this.faces;
    const now = new Map(before);
    changed.forEach((face) => now.set(face.face_id, face));
    this.faces = new Map([...now].sort(([a], [b]) => a - b));
    let total = NO_RATES;
    for (const [id, face] of this.faces) {
      const earlier = before.get(id) ?? face;
      const old = this.rates.get(id) ?? NO_RATES;
      const per = (a: number, b: number, last: number) =>
        seconds > 0 ? last * (1 - SMOOTHING) + (Math.max(0, a - b) / seconds) * SMOOTHING : last;
      const rates: Rates = {
        inInterests: per(face.in_interests, earlier.in_interests, old.inInterests),
        inData: per(face.in_data, earlier.in_data, old.inData),
        inBytes: per(face.in_bytes, earlier.in_bytes, old.inBytes),
        outInterests: per(face.out_interests, earlier.out_interests, old.outInterests),
        outData: per(face.out_data, earlier.out_data, old.outData),
        outBytes: per(face.out_bytes, earlier.out_bytes, old.outBytes),
      };
      this.rates.set(id, rates);
      total = add(total, rates);
      this.addFaceSample(id, rates, seconds);
    }
    this.total = total;
  }

  private addFaceSample(id: number, rates: Rates, seconds: number) {
    let curves = this.faceCurves.get(id);
    if (!curves && this.faceCurves.size < CURVES_MAX) {
      curves = new Curves(2);
      this.faceCurves.set(id, curves);
    }
    if (seconds > 0) curves?.add(this.atMs, [rates.inBytes * 8, rates.outBytes * 8]);
  }

  private removeFace(id: number) {
    this.faces.delete(id);
    this.rates.delete(id);
    this.faceCurves.delete(id);
  }

  ratesOf(id: number): Rates {
    return this.rates.get(id) ?? NO_RATES;
  }

  /** Returns the faces that lead out of the program. */
  outerFaces(): Face[] {
    return [...this.faces.values()].filter((face) => !isInternal(face));
  }
}

export const isInternal = (face: Face): boolean => /^(internal|null|contentstore):/.test(face.uri);

function sum(counts: Schemas['DropCount'][]): number {
  return counts.reduce((total, { count }) => total + count, 0);
}

function add(a: Rates, b: Rates): Rates {
  const out = { ...a };
  for (const key of Object.keys(out) as (keyof Rates)[]) out[key] += b[key];
  return out;
}

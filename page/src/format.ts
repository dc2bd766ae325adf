// Numbers as text for people.

const UNITS = ['', 'k', 'M', 'G', 'T'];

function scaled(value: number, step: number, units: string[]): string {
  let index = 0;
  let rest = value;
  while (Math.abs(rest) >= step && index < units.length - 1) {
    rest /= step;
    index += 1;
  }
  const digits = index === 0 && Number.isInteger(value) ? 0 : Math.abs(rest) >= 100 ? 0 : 1;
  return `${rest.toFixed(digits)}${units[index] ? ` ${units[index]}` : ''}`;
}

/** Returns a number with three digits and a unit: 12.3 k. */
export const count = (value: number): string => scaled(value, 1000, UNITS);

/** Returns a rate; small ones as zero, as the smoothed rate of a quiet face fades slowly. */
export const rate = (perSecond: number): string => (perSecond < 0.05 ? '0' : count(perSecond));

export const bytes = (value: number): string =>
  `${scaled(
    value,
    1024,
    UNITS.map((unit) => (unit ? `${unit}i` : '')),
  )}B`.replace(/(\d)B$/, '$1 B');

export const bits = (bytesPerSecond: number): string =>
  bytesPerSecond < 0.05
    ? '0'
    : `${count(bytesPerSecond * 8)}${bytesPerSecond * 8 < 1000 ? ' ' : ''}bit/s`;

export const percent = (share: number): string =>
  `${(share * 100).toFixed(share < 0.1 ? 1 : 0)}\u00a0%`;

export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export const clock = (atMs: number): string => new Date(atMs).toLocaleTimeString('en-GB');

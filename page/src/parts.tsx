// Small parts that all views use: commands with their outcome, dialogs, curves, empty states.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { clock } from './format';
import type { Curves } from './router/model';

/** A command under way, and how the last one ended. */
export function useCommand() {
  const [outcome, setOutcome] = useState<{ text: string; isError: boolean }>();
  const [isBusy, setBusy] = useState(false);
  const run = async (action: () => Promise<string | undefined>): Promise<boolean> => {
    setBusy(true);
    try {
      const text = await action();
      setOutcome(text ? { text, isError: false } : undefined);
      return true;
    } catch (error) {
      setOutcome({ text: error instanceof Error ? error.message : String(error), isError: true });
      return false;
    } finally {
      setBusy(false);
    }
  };
  const message = (
    <p
      class={`outcome${outcome?.isError ? ' error' : ''}`}
      role={outcome?.isError ? 'alert' : 'status'}
    >
      {outcome?.text}
    </p>
  );
  return { run, isBusy, message };
}

/** A button that asks once more before it does something that cannot be undone. */
export function ConfirmButton(props: { text: string; label: string; onConfirm(): void }) {
  const [isAsking, setAsking] = useState(false);
  useEffect(() => {
    if (!isAsking) return;
    const timer = setTimeout(() => setAsking(false), 5000);
    return () => clearTimeout(timer);
  }, [isAsking]);
  const click = () => {
    setAsking(!isAsking);
    if (isAsking) props.onConfirm();
  };
  return (
    <button
      type="button"
      class={isAsking ? 'danger' : ''}
      aria-label={isAsking ? `Confirm: ${props.label}` : props.label}
      onClick={click}
    >
      {isAsking ? 'Confirm' : props.text}
    </button>
  );
}

export function Tile(props: { title: string; value: string; children?: ComponentChildren }) {
  return (
    <div class="tile">
      <h3>{props.title}</h3>
      <p class="value">{props.value}</p>
      {props.children && <p class="note">{props.children}</p>}
    </div>
  );
}

export const Empty = ({ children }: { children: ComponentChildren }) => (
  <p class="empty">{children}</p>
);

/** A block of commands with a button that copies them. */
export function Commands({ lines }: { lines: string[] }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(lines.join('\n'));
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <div class="commands">
      <pre tabIndex={0} aria-label="Commands">
        {lines.join('\n')}
      </pre>
      <button type="button" onClick={() => void copy()}>
        {isCopied ? 'Copied' : 'Copy'}
      </button>
    </div>
  );
}

/** Time that curves show, seconds. */
const WINDOW_S = 300;

/** Returns the times of the axis: at least a minute, at most five. */
function timeRange(first: number | undefined, last: number | null): [number, number] {
  // Without a sample the axis ends now.
  const end = last ?? Date.now() / 1000;
  return [end - Math.min(WINDOW_S, Math.max(60, end - (first ?? end))), end];
}

interface CurveLine {
  text: string;
  /** Name of a colour of the style sheet. */
  color: string;
  dash?: number[];
  /** The line has a scale of its own, from 0, without an axis. */
  ownScale?: boolean;
}

/** Curves over time. `tick` changes when there are new samples. */
export function Chart(props: {
  curves: Curves;
  lines: CurveLine[];
  format(value: number): string;
  label: string;
  tick: number;
  height?: number;
  /** The axis shows all samples, in seconds from the start, and not the last minutes. */
  isWhole?: boolean;
  /** A moment that is marked, seconds. */
  mark?: number;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const mark = useRef(props.mark);
  mark.current = props.mark;
  const { curves, lines, height = 170 } = props;
  const time = (value: number) => (props.isWhole ? `${value} s` : clock(value * 1000));
  useEffect(() => {
    const element = frame.current!;
    const color = (name: string) =>
      getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    const axis = {
      stroke: () => color('muted'),
      grid: { stroke: () => color('border'), width: 1 },
      ticks: { stroke: () => color('border') },
    };
    plot.current = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height,
        cursor: { y: false },
        // The last time of the axis needs space on its right.
        padding: [8, 30, 0, 0],
        hooks: {
          draw: [
            ({ ctx, bbox, valToPos }) => {
              if (mark.current === undefined) return;
              const x = Math.round(valToPos(mark.current, 'x', true));
              ctx.fillStyle = color('text');
              ctx.fillRect(x, bbox.top, Math.max(1, devicePixelRatio), bbox.height);
            },
          ],
        },
        scales: {
          x: {
            time: !props.isWhole,
            range: (_plot, min: number | null, max: number | null) =>
              props.isWhole
                ? [curves.times[0] ?? min ?? 0, curves.times.at(-1) ?? max ?? 1]
                : timeRange(curves.times[0], max),
          },
          y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.15)] },
          own: { range: (_plot, _min, max) => [0, Math.max(1, max) * 1.4] },
        },
        axes: [
          { ...axis, size: 34, space: 72, values: (_plot, ticks) => ticks.map(time) },
          { ...axis, size: 66, values: (_plot, ticks) => ticks.map((tick) => props.format(tick)) },
        ],
        series: [
          {
            label: 'Time',
            value: (_plot, value: number | null | undefined) => (value == null ? '–' : time(value)),
          },
          ...lines.map(({ text, color: name, dash, ownScale }) => ({
            label: text,
            scale: ownScale ? 'own' : 'y',
            stroke: () => color(name),
            width: 2,
            dash,
            points: { show: false },
            value: (_plot: uPlot, value: number | null | undefined) =>
              value == null ? '–' : props.format(value),
          })),
        ],
      },
      [curves.times, ...curves.values] as uPlot.AlignedData,
      element,
    );
    const resizes = new ResizeObserver(() =>
      plot.current?.setSize({ width: Math.max(200, element.clientWidth), height }),
    );
    resizes.observe(element);
    const recolor = () => {
      plot.current?.redraw();
      element.querySelectorAll<HTMLElement>('.u-series').forEach((row, index) => {
        const marker = row.querySelector<HTMLElement>('.u-marker');
        if (marker && index > 0) marker.style.borderColor = color(lines[index - 1]!.color);
      });
    };
    const themes = new MutationObserver(recolor);
    themes.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    const media = matchMedia('(prefers-color-scheme: dark)');
    media.addEventListener('change', recolor);
    return () => {
      resizes.disconnect();
      themes.disconnect();
      media.removeEventListener('change', recolor);
      plot.current?.destroy();
    };
  }, [curves]);
  useEffect(() => {
    const current = plot.current;
    current?.setData([curves.times, ...curves.values] as uPlot.AlignedData);
    // Without a pointer over the curves the legend has the newest values.
    if (current && curves.times.length > 0 && (current.cursor.left ?? -1) < 0) {
      const marked =
        props.mark === undefined ? -1 : curves.times.findIndex((at) => at >= props.mark!);
      current.setLegend({ idx: marked < 0 ? curves.times.length - 1 : marked });
    }
  }, [props.tick, curves, props.mark]);
  return <div class="chart" ref={frame} role="img" aria-label={props.label} />;
}

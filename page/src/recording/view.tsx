// The view of a recorded run, or of one that is being recorded: the map at a moment, a slider, and
// what happened when.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { request, RequestError, type Connection } from '../api';
import { count, rate } from '../format';
import { MapView } from '../map/view';
import { Chart, Empty } from '../parts';
import { RecordingModel, type Recording } from './model';

/** Interval at which a run that goes on is asked for its newest frames. */
const INTERVAL_MS = 500;
/** Milliseconds for each frame of a replay. */
const FRAME_MS = 100;
const SPEEDS = [0.5, 1, 2, 5];
const COLORS = ['curve-1', 'curve-2', 'curve-3'];
const DASHES = [undefined, [6, 3], [2, 3]];

export function RecordingView(props: {
  host: string;
  onConnection(connection: Connection, error?: RequestError): void;
}) {
  const model = useRef(new RecordingModel()).current;
  const [tick, setTick] = useState(0);
  const [index, setIndex] = useState<number>();
  const [speed, setSpeed] = useState(1);
  const [isPlaying, setPlaying] = useState(false);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let isOver = false;
    const turn = async () => {
      try {
        model.add(await request<Recording>('GET', `/v1/recording?first=${model.next}`));
        props.onConnection('live');
        setTick((before) => before + 1);
      } catch (error) {
        props.onConnection('lost', error instanceof RequestError ? error : undefined);
      }
      const goesOn = model.recording === undefined || model.recording.is_running;
      if (!isOver && goesOn) timer = setTimeout(() => void turn(), INTERVAL_MS);
    };
    void turn();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);
  const last = (model.recording?.frames.length ?? 1) - 1;
  const isRunning = model.recording?.is_running ?? false;
  // A run that goes on is followed, until a person moves the slider.
  const shown = Math.min(index ?? (isRunning ? last : 0), Math.max(0, last));
  useEffect(() => {
    if (!isPlaying) return;
    const timer = setInterval(() => {
      setIndex((before) => {
        const next = (before ?? 0) + 1;
        if (next >= last) setPlaying(false);
        return Math.min(next, last);
      });
    }, FRAME_MS / speed);
    return () => clearInterval(timer);
  }, [isPlaying, speed, last]);
  const graph = useMemo(() => model.graphOf(shown), [shown, tick]);
  const { recording } = model;
  const frame = recording?.frames[shown];
  if (!recording || !frame)
    return (
      <main>
        <Empty>{recording ? 'Nothing is recorded yet.' : 'Waiting for the recording.'}</Empty>
      </main>
    );
  const play = () => {
    if (!isPlaying && shown >= last) setIndex(0);
    else if (!isPlaying) setIndex(shown);
    setPlaying(!isPlaying);
  };
  const happened = model.events.filter((event) => event.index <= shown);
  return (
    <main>
      <p class="status-line">
        <b>{recording.title}</b>, {graph.nodes.length} nodes, {graph.links.length} links
        {isRunning ? ', recorded now' : `, ${recording.frames.length} moments`}
      </p>
      <div class="slider">
        <button type="button" class="primary" onClick={play}>
          {isPlaying ? 'Pause' : 'Play'}
        </button>
        <label class="slider">
          <span class="hidden">Time</span>
          <input
            type="range"
            min={0}
            max={Math.max(0, last)}
            value={shown}
            aria-valuetext={seconds(frame.at_ms)}
            onInput={(e) => {
              setPlaying(false);
              setIndex(Number(e.currentTarget.value));
            }}
          />
        </label>
        <output id="moment">{seconds(frame.at_ms)}</output>
        <label>
          <span class="hidden">Speed</span>
          <select value={speed} onChange={(e) => setSpeed(Number(e.currentTarget.value))}>
            {SPEEDS.map((value) => (
              <option value={value}>{value}×</option>
            ))}
          </select>
        </label>
        {isRunning && (
          <button type="button" disabled={index === undefined} onClick={() => setIndex(undefined)}>
            Now
          </button>
        )}
      </div>
      <p class="happened" role="status">
        {happened.at(-1) && `${seconds(happened.at(-1)!.atMs)}: ${happened.at(-1)!.text}`}
      </p>
      <MapView
        graph={graph}
        storageKey={`recording:${recording.title}`}
        labels={[
          { name: 'rate', text: 'packets/s', format: (value) => `${rate(value)}/s` },
          { name: 'dropped', text: 'dropped/s', format: (value) => `${rate(value)} dropped/s` },
        ]}
        columns={[
          { name: 'rate', text: 'Packets/s', format: rate },
          { name: 'dropped', text: 'Dropped/s', format: rate },
        ]}
        panel={(node) => (
          <dl>
            <dt>Packets</dt>
            <dd>{rate(Number(node.values['rate']))}/s</dd>
            <dt>Dropped</dt>
            <dd>{rate(Number(node.values['dropped']))}/s</dd>
          </dl>
        )}
      />
      <div class="columns wide recorded">
        {model.totals.length > 0 && (
          <section class="card">
            <h2>The whole run</h2>
            <Chart
              curves={model.curves}
              tick={tick}
              height={170}
              isWhole
              mark={frame.at_ms / 1000}
              format={(value) => count(value)}
              label="Totals over time"
              lines={model.totals.map((text, at) => ({
                text,
                color: COLORS[at]!,
                dash: DASHES[at],
              }))}
            />
          </section>
        )}
        <section class="card">
          <h2>What happened</h2>
          {model.events.length === 0 ? (
            <Empty>Nothing failed, joined or left.</Empty>
          ) : (
            <div class="scroll tall" tabIndex={0} role="region" aria-label="What happened">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Time</th>
                    <th scope="col">What</th>
                  </tr>
                </thead>
                <tbody>
                  {model.events.map((event) => (
                    <tr>
                      <th scope="row">
                        <button type="button" class="link" onClick={() => setIndex(event.index)}>
                          {seconds(event.atMs)}
                        </button>
                      </th>
                      <td>{event.text}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </section>
      </div>
    </main>
  );
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 100_000 ? 2 : 1)} s`;

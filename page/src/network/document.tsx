// The document: a draft as text and drawing side by side, with undo and redo, what the checker says
// at its place, what would change, and applying it.

import { useEffect, useRef, useState } from 'preact/hooks';
import { request, RequestError } from '../api';
import { useCommand } from '../parts';
import { DrawingEditor, type Drawing, type DraftEdit } from './drawing';
import { Steps } from './plans';
import type { NetworkModel, Schemas } from './model';

const STEPS_MAX = 200;
const CHECK_DELAY_MS = 500;
const DRAW_DELAY_MS = 250;
/** Edits within this time are undone together. */
const SAME_STEP_MS = 400;

/** A text with the texts before and after it. */
interface Draft {
  past: string[];
  text: string;
  future: string[];
}

export function DocumentView({ model }: { model: NetworkModel }) {
  const [status, setStatus] = useState<Schemas['NetworkStatus']>();
  const [draft, setDraft] = useState<Draft>();
  const [plan, setPlan] = useState<Schemas['NetworkPlan']>();
  const [mistakes, setMistakes] = useState('');
  const [reason, setReason] = useState('');
  const [drawing, setDrawing] = useState<Drawing>();
  const editedAt = useRef(0);
  const area = useRef<HTMLTextAreaElement>(null);
  const newest = useRef<string | undefined>(undefined);
  const command = useCommand();
  const drawn = useCommand();
  const { version } = model.graph!;
  useEffect(() => {
    void request<Schemas['NetworkStatus']>('GET', '/v1/network').then(
      (now) => {
        setStatus(now);
        // A draft that a person has begun stays when another version takes effect.
        setDraft((before) =>
          before && before.text !== status?.text
            ? before
            : { past: [], text: now.text, future: [] },
        );
      },
      () => undefined,
    );
  }, [version]);
  const text = draft?.text;
  const isChanged = text !== undefined && text !== status?.text;
  useEffect(() => {
    if (!isChanged) {
      setPlan(undefined);
      setMistakes('');
      return;
    }
    const timer = setTimeout(() => {
      request<Schemas['NetworkPlan']>('POST', '/v1/plan', { text }).then(
        (now) => {
          setPlan(now);
          setMistakes('');
        },
        (error: Error) => {
          setPlan(undefined);
          setMistakes(error.message);
        },
      );
    }, CHECK_DELAY_MS);
    return () => clearTimeout(timer);
  }, [text, isChanged, version]);
  newest.current = text;
  useEffect(() => {
    if (text === undefined || drawing?.text === text) return;
    const timer = setTimeout(() => {
      request<Drawing>('POST', '/v1/drawing', { text }).then(
        (now) => now.text === newest.current && setDrawing(now),
        () => undefined,
      );
    }, DRAW_DELAY_MS);
    return () => clearTimeout(timer);
  }, [text, drawing]);
  if (!draft || !status) return <p class="empty">Waiting for the document.</p>;

  const edit = (now: string) => {
    // Letters typed in a row are one step.
    const isSameStep = performance.now() - editedAt.current < SAME_STEP_MS;
    editedAt.current = performance.now();
    const past = isSameStep ? draft.past : [...draft.past, draft.text].slice(-STEPS_MAX);
    setDraft({ past, text: now, future: [] });
  };
  /** Makes an edit of the drawing: the manager changes the text. */
  const editDrawing = (wanted: DraftEdit) =>
    void drawn.run(async () => {
      const before = draft.text;
      const now = await request<Drawing>('POST', '/v1/drawing', { text: before, edit: wanted });
      if (newest.current !== before)
        throw new Error('The text has changed meanwhile: make the change once more.');
      editedAt.current = 0;
      edit(now.text);
      editedAt.current = 0;
      setDrawing(now);
      return undefined;
    });
  const showLine = (line: number) => {
    const lines = draft.text.split('\n');
    const start = lines.slice(0, line - 1).join('\n').length + (line > 1 ? 1 : 0);
    area.current?.focus();
    area.current?.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
    if (area.current)
      area.current.scrollTop = (area.current.scrollHeight / lines.length) * Math.max(0, line - 6);
  };
  const undo = () => {
    if (draft.past.length === 0) return;
    editedAt.current = 0;
    setDraft({
      past: draft.past.slice(0, -1),
      text: draft.past.at(-1)!,
      future: [draft.text, ...draft.future],
    });
  };
  const redo = () =>
    draft.future.length &&
    setDraft({
      past: [...draft.past, draft.text],
      text: draft.future[0]!,
      future: draft.future.slice(1),
    });
  const apply = () =>
    void command.run(async () => {
      try {
        await request('PUT', '/v1/network', {
          text: draft.text,
          version: status.version,
          plan: plan?.id,
          reason: reason || null,
        });
      } catch (error) {
        if (error instanceof RequestError && error.code === 409)
          throw new Error(`${error.message} Look at the plan below once more.`);
        throw error;
      }
      setReason('');
      return 'The document is in effect; the plan shows what happens.';
    });
  const onKey = (event: KeyboardEvent) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 'z') return;
    event.preventDefault();
    if (event.shiftKey) redo();
    else undo();
  };
  return (
    <>
      <section class="card" onKeyDown={onKey}>
        <header class="row">
          <h2>
            Document{' '}
            <span class="note">
              version {status.version}
              {isChanged ? ', draft changed' : ''}
            </span>
          </h2>
          <span class="group">
            <button type="button" disabled={!draft.past.length} onClick={undo}>
              Undo
            </button>{' '}
            <button type="button" disabled={!draft.future.length} onClick={redo}>
              Redo
            </button>{' '}
            <button type="button" disabled={!isChanged} onClick={() => edit(status.text)}>
              Discard the draft
            </button>
          </span>
        </header>
        <div class="columns wide">
          <textarea
            ref={area}
            class="draft"
            aria-label="Draft of the document"
            spellcheck={false}
            value={draft.text}
            rows={34}
            onInput={(e) => edit(e.currentTarget.value)}
          />
          <div>
            {drawing && (
              <DrawingEditor
                drawing={drawing}
                isBusy={drawn.isBusy || drawing.text !== draft.text}
                onEdit={editDrawing}
                onShowLine={showLine}
              />
            )}
            {drawn.message}
          </div>
        </div>
        {drawing && drawing.problems.length > 0 && (
          <div role="alert">
            <h3>Mistakes</h3>
            <ul class="mistakes">
              {drawing.problems.map((problem) => (
                <li>
                  {problem.line > 0 && (
                    <button type="button" class="link" onClick={() => showLine(problem.line)}>
                      line {problem.line}
                    </button>
                  )}{' '}
                  {problem.message}; <span class="note">{problem.remedy}</span>
                </li>
              ))}
            </ul>
          </div>
        )}
        {mistakes && drawing?.problems.length === 0 && (
          <pre class="error" tabIndex={0} role="alert">
            {mistakes}
          </pre>
        )}
        <h3>Changes to version {status.version}</h3>
        <Difference before={status.text} now={draft.text} />
        <form
          class="inline"
          onSubmit={(event) => {
            event.preventDefault();
            apply();
          }}
        >
          <label>
            Reason{' '}
            <input
              value={reason}
              placeholder="for the history"
              size={30}
              onInput={(e) => setReason(e.currentTarget.value)}
            />
          </label>
          <button type="submit" class="primary" disabled={!plan || command.isBusy}>
            Apply
          </button>
        </form>
        {command.message}
      </section>
      {plan && (
        <section class="card">
          <h2>What would change</h2>
          <Steps plan={plan} />
        </section>
      )}
    </>
  );
}

/** Lines that only one of two texts has. */
function Difference({ before, now }: { before: string; now: string }) {
  const [old, fresh] = [before.split('\n'), now.split('\n')];
  let start = 0;
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start += 1;
  let end = 0;
  while (
    end < old.length - start &&
    end < fresh.length - start &&
    old.at(-1 - end) === fresh.at(-1 - end)
  )
    end += 1;
  const removed = old.slice(start, old.length - end);
  const added = fresh.slice(start, fresh.length - end);
  if (removed.length + added.length === 0) return <p class="empty">None.</p>;
  return (
    <pre class="difference" tabIndex={0} aria-label="Changed lines">
      {removed.map((line, index) => (
        <span class="removed">{`− ${start + index + 1}  ${line}\n`}</span>
      ))}
      {added.map((line, index) => (
        <span class="added">{`+ ${start + index + 1}  ${line}\n`}</span>
      ))}
    </pre>
  );
}

// The document: a draft with undo and redo, what the checker says, what would change, and applying
// it. The draft is marked where it differs from the version in effect.

import { useEffect, useRef, useState } from 'preact/hooks';
import { request, RequestError } from '../api';
import { useCommand } from '../parts';
import { Steps } from './plans';
import type { NetworkModel, Schemas } from './model';

const STEPS_MAX = 200;
const CHECK_DELAY_MS = 500;
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
  const editedAt = useRef(0);
  const command = useCommand();
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
  if (!draft || !status) return <p class="empty">Waiting for the document.</p>;

  const edit = (now: string) => {
    // Letters typed in a row are one step.
    const isSameStep = performance.now() - editedAt.current < SAME_STEP_MS;
    editedAt.current = performance.now();
    const past = isSameStep ? draft.past : [...draft.past, draft.text].slice(-STEPS_MAX);
    setDraft({ past, text: now, future: [] });
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
      <section class="card">
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
            class="draft"
            aria-label="Draft of the document"
            spellcheck={false}
            value={draft.text}
            rows={24}
            onInput={(e) => edit(e.currentTarget.value)}
            onKeyDown={onKey}
          />
          <div>
            <h3>Changes to version {status.version}</h3>
            <Difference before={status.text} now={draft.text} />
            {mistakes && (
              <pre class="error" tabIndex={0} role="alert">
                {mistakes}
              </pre>
            )}
          </div>
        </div>
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

// Who may do what: keys and rules that elements trust, tokens of users, and who asked for what.

import { useState } from 'preact/hooks';
import { request } from '../api';
import { ConfirmButton, useCommand } from '../parts';
import { Audit, ListTable, useList } from './lists';
import type { Schemas } from './model';

const DAY_S = 86_400;
const date = (atMs: number): string => new Date(atMs).toLocaleString('en-GB');
const setBy = ({ document, author }: { document: boolean; author: string }): string =>
  document ? 'document' : author;

export function Access({ tick }: { tick: number }) {
  // Changes made here are shown at once, those of others with the next look.
  const [changes, setChanges] = useState(0);
  const key = `${changes} ${Math.floor(tick / 5)}`;
  const onChange = () => setChanges((before) => before + 1);
  return (
    <>
      <div class="columns wide">
        <Keys version={key} onChange={onChange} />
        <Rules version={key} onChange={onChange} />
      </div>
      <Tokens version={key} onChange={onChange} />
      <Audit version={key} />
    </>
  );
}

interface Part {
  version: string;
  onChange(): void;
}

function Keys({ version, onChange }: Part) {
  const { value } = useList<Schemas['NetworkTrust']>('/v1/keys', version);
  const [use, setUse] = useState<Schemas['KeyUse']>('anchor');
  const [certificate, setCertificate] = useState('');
  const command = useCommand();
  const add = (event: Event) => {
    event.preventDefault();
    void command.run(async () => {
      await request('POST', '/v1/keys', { use, certificate });
      setCertificate('');
      onChange();
      return 'The key is trusted from now on.';
    });
  };
  const remove = (name: string) =>
    void command.run(async () => {
      await request('DELETE', `/v1/keys/certificate?name=${encodeURIComponent(name)}`);
      onChange();
      return `${name} is no longer trusted.`;
    });
  return (
    <ListTable
      title="Keys"
      head={['Certificate', 'Trusted as', 'Set by', '']}
      rows={(value?.keys ?? []).map((one) => [
        <span class="name">{one.name}</span>,
        one.use,
        setBy(one),
        one.document ? (
          ''
        ) : (
          <ConfirmButton
            text="Remove"
            label={`Remove ${one.name}`}
            onConfirm={() => remove(one.name)}
          />
        ),
      ])}
      empty="No key is trusted: signatures are checked by none."
    >
      <details>
        <summary>Add a key</summary>
        <form class="stack" onSubmit={add}>
          <label>
            Trusted as{' '}
            <select
              value={use}
              onChange={(e) => setUse(e.currentTarget.value as Schemas['KeyUse'])}
            >
              <option value="anchor">anchor</option>
              <option value="certificate">certificate</option>
            </select>
          </label>
          <label>
            Certificate, as <code>nw cert export</code> prints it
            <textarea
              required
              rows={4}
              class="draft"
              value={certificate}
              onInput={(e) => setCertificate(e.currentTarget.value)}
            />
          </label>
          <button type="submit" disabled={command.isBusy}>
            Add key
          </button>
        </form>
      </details>
      {command.message}
    </ListTable>
  );
}

function Rules({ version, onChange }: Part) {
  const { value } = useList<Schemas['NetworkTrust']>('/v1/keys', version);
  const [names, setNames] = useState('');
  const [keys, setKeys] = useState('');
  const command = useCommand();
  const change = (path: string, rule: Schemas['KeyRuleText'], text: string) =>
    command.run(async () => {
      await request('POST', path, rule);
      onChange();
      return text;
    });
  const add = async (event: Event) => {
    event.preventDefault();
    const isDone = await change('/v1/key-rules', { names, keys }, 'The rule is in effect.');
    if (!isDone) return;
    setNames('');
    setKeys('');
  };
  return (
    <ListTable
      title="Rules"
      head={['Names', 'may be signed by', 'Set by', '']}
      rows={(value?.rules ?? []).map((rule) => [
        <span class="name">{rule.names}</span>,
        <span class="name">{rule.keys}</span>,
        setBy(rule),
        rule.document ? (
          ''
        ) : (
          <ConfirmButton
            text="Remove"
            label={`Remove the rule for ${rule.names}`}
            onConfirm={() =>
              void change(
                '/v1/key-rules/remove',
                { names: rule.names, keys: rule.keys },
                'The rule is removed.',
              )
            }
          />
        ),
      ])}
      empty="No rule: keys of any name may sign any name."
    >
      <form class="inline" onSubmit={(event) => void add(event)}>
        <label>
          Names{' '}
          <input
            required
            value={names}
            placeholder="/site/<who>/<..>"
            onInput={(e) => setNames(e.currentTarget.value)}
          />
        </label>
        <label>
          Keys{' '}
          <input
            required
            value={keys}
            placeholder="/site/<who>/KEY/<_>"
            onInput={(e) => setKeys(e.currentTarget.value)}
          />
        </label>
        <button type="submit" disabled={command.isBusy}>
          Add rule
        </button>
      </form>
      {command.message}
    </ListTable>
  );
}

function Tokens({ version, onChange }: Part) {
  const { value: tokens } = useList<Schemas['UserToken'][]>('/v1/tokens', version);
  const [name, setName] = useState('');
  const [role, setRole] = useState<Schemas['Role']>('viewer');
  const [days, setDays] = useState('30');
  const [made, setMade] = useState<{ name: string; token: string }>();
  const command = useCommand();
  const add = (event: Event) => {
    event.preventDefault();
    void command.run(async () => {
      const wanted = { name, role, valid_s: Math.round(Number(days) * DAY_S) };
      const { token } = await request<Schemas['NewToken']>('POST', '/v1/tokens', wanted);
      setMade({ name, token });
      setName('');
      onChange();
      return undefined;
    });
  };
  const remove = (old: string) =>
    void command.run(async () => {
      await request('DELETE', `/v1/tokens/${encodeURIComponent(old)}`);
      if (made?.name === old) setMade(undefined);
      onChange();
      return `The token ${old} is void.`;
    });
  return (
    <ListTable
      title="Tokens"
      head={['Name', 'Role', 'Made', 'Expires', 'By', '']}
      rows={(tokens ?? []).map((token) => [
        token.name,
        token.role,
        date(token.created_ms),
        <span class={token.expires_ms < Date.now() ? 'error' : ''}>{date(token.expires_ms)}</span>,
        token.author,
        <ConfirmButton
          text="Remove"
          label={`Remove the token ${token.name}`}
          onConfirm={() => remove(token.name)}
        />,
      ])}
      empty="No token: only users of this machine command the manager."
    >
      <form class="inline" onSubmit={add}>
        <label>
          Name{' '}
          <input
            required
            maxLength={63}
            pattern="[A-Za-z0-9_.\-]+"
            value={name}
            onInput={(e) => setName(e.currentTarget.value)}
          />
        </label>
        <label>
          Role{' '}
          <select value={role} onChange={(e) => setRole(e.currentTarget.value as Schemas['Role'])}>
            <option value="viewer">viewer: looks</option>
            <option value="operator">operator: changes the network</option>
            <option value="admin">admin: changes trust as well</option>
          </select>
        </label>
        <label>
          Days{' '}
          <input
            type="number"
            required
            min={1}
            max={3650}
            value={days}
            onInput={(e) => setDays(e.currentTarget.value)}
          />
        </label>
        <button type="submit" disabled={command.isBusy}>
          Make token
        </button>
      </form>
      {made && (
        <div class="made" role="status">
          <p>
            The token of <b>{made.name}</b>. Copy it now: it is not stored, and can&apos;t be shown
            again.
          </p>
          <pre tabIndex={0} aria-label="New token">
            {made.token}
          </pre>
          <button type="button" onClick={() => setMade(undefined)}>
            Done
          </button>
        </div>
      )}
      {command.message}
    </ListTable>
  );
}

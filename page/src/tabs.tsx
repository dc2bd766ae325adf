// Tabs with the keyboard's arrows; the address's fragment names the open one.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

export interface Tab {
  id: string;
  text: string;
  view(): ComponentChildren;
}

export function Tabs({ tabs }: { tabs: Tab[] }) {
  const fromAddress = () => tabs.find(({ id }) => id === location.hash.slice(1))?.id ?? tabs[0]!.id;
  const [open, setOpen] = useState(fromAddress);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const onChange = () => setOpen(fromAddress());
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);
  const choose = (id: string) => {
    history.replaceState(null, '', `#${id}`);
    setOpen(id);
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (tabs.findIndex(({ id }) => id === open) + step + tabs.length) % tabs.length;
    choose(tabs[next]!.id);
    list.current?.querySelectorAll('button')[next]?.focus();
  };
  const current = tabs.find(({ id }) => id === open) ?? tabs[0]!;
  useEffect(() => {
    // In a narrow window the list scrolls: the open tab stays visible.
    const reveal = () => {
      const tab = list.current?.querySelector<HTMLElement>('[aria-selected="true"]');
      if (tab) list.current!.scrollLeft = tab.offsetLeft - list.current!.clientWidth / 3;
    };
    reveal();
    addEventListener('resize', reveal);
    return () => removeEventListener('resize', reveal);
  }, [current.id]);
  return (
    <>
      <div class="tabs" role="tablist" aria-label="Views" ref={list} onKeyDown={onKey}>
        {tabs.map(({ id, text }) => (
          <button
            type="button"
            role="tab"
            id={`tab-${id}`}
            aria-selected={id === current.id}
            aria-controls="view"
            tabIndex={id === current.id ? 0 : -1}
            onClick={() => choose(id)}
          >
            {text}
          </button>
        ))}
      </div>
      <main>
        <div id="view" role="tabpanel" aria-labelledby={`tab-${current.id}`}>
          {current.view()}
        </div>
      </main>
    </>
  );
}

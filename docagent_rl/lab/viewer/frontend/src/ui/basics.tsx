import type { ComponentChildren } from "preact";
import { number } from "../logic/format";

export function Notice({ children, bad }: { children: ComponentChildren; bad?: boolean }) {
  return (
    <p class={bad ? "notice bad" : "notice"} role={bad ? "alert" : "status"}>
      {children}
    </p>
  );
}

/** A placeholder for data: an error, a loading message, or that there is none. */
export function Waiting({ error, loading, empty }: { error: string | null; loading: boolean; empty?: string }) {
  if (error !== null) return <Notice bad>{error}</Notice>;
  if (loading) return <Notice>Loading…</Notice>;
  return <Notice>{empty ?? "Nothing here."}</Notice>;
}

export function Section({ title, aside, children, id }: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  id?: string;
}) {
  return (
    <section class="section" id={id} aria-label={title}>
      <header class="section-head">
        <h2>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  );
}

/** A bar from zero to the left or right, with its number. */
export function Bar({ value, scale, signed }: { value: number; scale: number; signed?: boolean }) {
  const share = scale > 0 ? Math.min(1, Math.abs(value) / scale) : 0;
  const size = signed ? share * 50 : share * 100;
  const left = signed ? (value < 0 ? 50 - size : 50) : 0;
  return (
    <span class={signed ? "bar signed" : "bar"} title={number(value, 5)}>
      <span class={value < 0 ? "fill neg" : "fill"} style={{ left: `${left}%`, width: `${size}%` }} />
    </span>
  );
}

export function Key({ children }: { children: string }) {
  return <kbd>{children}</kbd>;
}

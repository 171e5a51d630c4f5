import { useState } from "preact/hooks";
import type { Facet, Facets } from "../api/types";
import { CHOICES, filtersOf, formatRange, label, parseRange, toggled, withValue } from "../logic/filters";
import { byStage, stageName } from "../logic/funnel";
import { count, number, words } from "../logic/format";
import { Field } from "../ui/field";

type Change = (query: URLSearchParams) => void;
const FEW = 7;
/** Fields with too many values to list. */
const NAMED = ["question_id", "doc_id", "uid"] as const;
/** Ranges that are always offered; others appear if a link sets them. */
const RANGES = new Set(["reward", "turns", "invalid", "tokens", "images", "advantage", "drift"]);

/** Filters next to the list, each value with its number of trajectories. */
export function FacetPanel({ facets, query, change }: { facets: Facets | undefined; query: URLSearchParams; change: Change }) {
  const ranges = Object.entries(facets?.ranges ?? {}).filter(
    ([key, range]) => query.has(key) || (range[0] < range[1] && (RANGES.has(key) || (key.startsWith("term:") && key !== "term:total"))),
  );
  return (
    <aside class="facets" aria-label="Filters">
      {CHOICES.map((field) => {
        const counted = facets?.[field] ?? [];
        const values = withChosen(field === "stage" ? byStage(counted) : counted, query.getAll(field));
        const dull = values.length < 2 && !query.has(field);
        return dull ? null : <Choice key={field} field={field} values={values} query={query} change={change} />;
      })}
      {ranges.length > 0 && <h2 class="range-title">Ranges</h2>}
      {ranges.map(([key, range]) => (
        <RangeFilter key={key} name={key} range={range} query={query} change={change} />
      ))}
      <h2 class="range-title">Exact id</h2>
      {NAMED.map((key) => (
        <label key={key} class="range named">
          <span class="range-name">{label(key)}</span>
          <Field type="text" spellcheck={false} placeholder="id" value={query.get(key) ?? ""} onChange={(event) => change(withValue(query, key, event.currentTarget.value.trim() || null))} />
        </label>
      ))}
    </aside>
  );
}

function Choice({ field, values, query, change }: { field: string; values: Facet[]; query: URLSearchParams; change: Change }) {
  const [all, setAll] = useState(false);
  const chosen = new Set(query.getAll(field));
  const shown = all ? values : values.filter((each, at) => at < FEW || chosen.has(each.value));
  return (
    <fieldset>
      <legend>{label(field)}</legend>
      {shown.map(({ value, count: trajectories }) => (
        <label key={value} class="choice">
          <input type="checkbox" checked={chosen.has(value)} onChange={() => change(toggled(query, field, value))} />
          <span class="choice-name" title={value}>{named(field, value)}</span>
          <span class="num muted">{count(trajectories)}</span>
        </label>
      ))}
      {values.length > shown.length || all ? (
        values.length > FEW && (
          <button type="button" class="quiet small" aria-expanded={all} onClick={() => setAll(!all)}>
            {all ? "Fewer" : `${values.length - shown.length} more`}
          </button>
        )
      ) : null}
    </fieldset>
  );
}

function RangeFilter({ name, range, query, change }: { name: string; range: [number, number]; query: URLSearchParams; change: Change }) {
  const [low, high] = parseRange(query.get(name));
  const set = (from: string, to: string): void => {
    const value = (text: string): number | null => (text.trim() === "" || Number.isNaN(Number(text)) ? null : Number(text));
    change(withValue(query, name, formatRange(value(from), value(to))));
  };
  return (
    <div class="range" role="group" aria-label={words(label(name))}>
      <span class="range-name" title={words(label(name))}>{words(label(name).replace(" actions", ""))}</span>
      <Field type="text" inputMode="decimal" aria-label={`${label(name)}, at least`} placeholder={number(range[0], 2)} value={String(low ?? "")} onChange={(event) => set(event.currentTarget.value, high === null ? "" : String(high))} />
      <span aria-hidden="true">–</span>
      <Field type="text" inputMode="decimal" aria-label={`${label(name)}, at most`} placeholder={number(range[1], 2)} value={String(high ?? "")} onChange={(event) => set(low === null ? "" : String(low), event.currentTarget.value)} />
    </div>
  );
}

/** The active filters, each of which can be removed. */
export function Chips({ query, change }: { query: URLSearchParams; change: Change }) {
  const filters = [...filtersOf(query)];
  if (filters.length === 0) return null;
  const clear = (): void => {
    const next = new URLSearchParams(query);
    for (const [key] of filters) next.delete(key);
    change(next);
  };
  return (
    <ul class="chips" aria-label="Active filters">
      {filters.map(([key, value]) => (
        <li key={`${key} ${value}`}>
          <button type="button" onClick={() => change(key === "q" ? withValue(query, "q", null) : toggled(query, key, value))} title={`${label(key)}: ${value} – remove`}>
            <span class="muted">{label(key)}</span> {named(key, value)} <span aria-hidden="true">×</span>
            <span class="hidden">remove</span>
          </button>
        </li>
      ))}
      <li><button type="button" class="clear" onClick={clear}>Clear</button></li>
    </ul>
  );
}

function named(field: string, value: string): string {
  if (field === "stage") return stageName(value);
  return value === "" ? "none" : words(value);
}

/** Chosen values stay visible even if no trajectory has them any more. */
function withChosen(values: Facet[], chosen: readonly string[]): Facet[] {
  const missing = chosen.filter((value) => !values.some((each) => each.value === value));
  return [...values, ...missing.map((value) => ({ value, count: 0 }))];
}

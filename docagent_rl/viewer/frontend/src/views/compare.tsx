import { useState } from "preact/hooks";
import type { Comparison, Pair, Run } from "../api/types";
import { useApi } from "../api/use";
import { withValue } from "../logic/filters";
import { count, fixed, plural, signed, words } from "../logic/format";
import { link, type Route } from "../logic/route";
import { Bar, Notice, Waiting } from "../ui/basics";
import { replace } from "../ui/location";

const MOST = 300;

/** Two runs on the same questions, with what chance leaves open. */
export function Compare({ route, runs }: { route: Route; runs: Run[] }) {
  const a = pick(route.query.get("a"), runs, 0);
  const b = pick(route.query.get("b"), runs, 1);
  const split = route.query.get("split") ?? (a?.steps.val?.length && b?.steps.val?.length ? "val" : "train");
  const measure = route.query.get("measure") ?? "reward";
  const query = new URLSearchParams({ a: String(a?.id ?? 0), b: String(b?.id ?? 0), split, measure });
  const both = a !== undefined && b !== undefined && a.id !== b.id;
  const { data, error, loading } = useApi<Comparison>(both ? `/api/compare?${query}` : null, (a?.revision ?? 0) * 100003 + (b?.revision ?? 0));
  const change = (key: string, value: string): void => replace({ ...route, query: withValue(route.query, key, value) });
  if (runs.length < 2) return <Notice>One run is open; name two on the command line to compare them.</Notice>;
  const terms = [...new Set([...(a?.terms ?? []), ...(b?.terms ?? [])])].filter((name) => name !== "total");
  return (
    <div class="page compare">
      <header class="page-head">
        <h1>Compare</h1>
        <Choose label="A" value={String(a?.id)} options={runs.map((run) => [String(run.id), run.name])} set={(value) => change("a", value)} />
        <Choose label="B" value={String(b?.id)} options={runs.map((run) => [String(run.id), run.name])} set={(value) => change("b", value)} />
        <Choose label="on" value={split} options={[["val", "validation"], ["train", "training"]]} set={(value) => change("split", value)} />
        <Choose label="by" value={measure} options={[["reward", "reward"], ["right", "answered right"], ["turns", "turns"], ["invalid", "invalid actions"], ...terms.map((name): [string, string] => [`term:${name}`, words(name)])]} set={(value) => change("measure", value)} />
      </header>
      {data === undefined ? <Waiting error={error} loading={loading} empty="Choose two different runs." /> : (
        <>
          <Summary data={data} a={a?.name ?? "A"} b={b?.name ?? "B"} />
          <Pairs rows={data.rows} a={a as Run} b={b as Run} />
        </>
      )}
    </div>
  );
}

function Choose({ label, value, options, set }: { label: string; value: string; options: [string, string][]; set: (value: string) => void }) {
  return (
    <label>
      <span class="muted">{label} </span>
      <select value={value} onChange={(event) => set(event.currentTarget.value)}>
        {options.map(([each, name]) => <option key={each} value={each}>{name}</option>)}
      </select>
    </label>
  );
}

function Summary({ data, a, b }: { data: Comparison; a: string; b: string }) {
  if (data.pairs === 0) return <Notice>They have no question in common here.</Notice>;
  const sure = data.low > 0 || data.high < 0;
  return (
    <section class="summary" aria-label="Result">
      <p class="verdict">
        {sure ? (
          <>On {plural(data.pairs, "question")} <b>{data.difference > 0 ? b : a}</b> is better by <b class="num">{fixed(Math.abs(data.difference), 3)}</b>.</>
        ) : (
          <>On {plural(data.pairs, "question")} chance alone could make a difference of <b class="num">{signed(data.difference, 3)}</b>.</>
        )}
      </p>
      <dl class="answers">
        <div><dt>A, mean</dt><dd class="num">{fixed(data.mean_a, 3)}</dd></div>
        <div><dt>B, mean</dt><dd class="num">{fixed(data.mean_b, 3)}</dd></div>
        <div><dt>B − A</dt><dd class="num"><b>{signed(data.difference, 3)}</b></dd></div>
        <div><dt>interval</dt><dd class="num">{signed(data.low, 3)} … {signed(data.high, 3)}</dd></div>
        {data.p !== undefined && data.p !== null && <div><dt>p</dt><dd class="num">{fixed(data.p, 3)}</dd></div>}
        {data.won !== undefined && <div><dt>questions</dt><dd class="num">{count(data.won)} up, {count(data.lost ?? 0)} down, {count(data.tied ?? 0)} equal</dd></div>}
      </dl>
      <Interval data={data} />
      <p class="muted">{data.method}</p>
    </section>
  );
}

/** The difference with its interval on an axis that holds zero. */
function Interval({ data }: { data: Comparison }) {
  const most = Math.max(Math.abs(data.low), Math.abs(data.high), 1e-9) * 1.15;
  const x = (value: number): number => 50 + (50 * value) / most;
  return (
    <svg class="interval" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label={`Difference ${fixed(data.difference, 3)}, from ${fixed(data.low, 3)} to ${fixed(data.high, 3)}`}>
      <line class="axis" x1="0" x2="100" y1="6" y2="6" />
      <line class="zero" x1="50" x2="50" y1="0" y2="12" />
      <rect class="range" x={x(data.low)} width={x(data.high) - x(data.low)} y="4" height="4" />
      <rect class="mean" x={x(data.difference) - 0.25} width="0.5" y="1" height="10" />
    </svg>
  );
}

function Pairs({ rows, a, b }: { rows: readonly Pair[]; a: Run; b: Run }) {
  const [down, setDown] = useState(true);
  const sorted = [...rows].sort((x, y) => (down ? -1 : 1) * (x.b - x.a - (y.b - y.a)));
  const scale = Math.max(0, ...rows.map((row) => Math.abs(row.b - row.a)));
  return (
    <>
      <table class="plain pairs">
        <thead>
          <tr>
            <th scope="col">Question</th>
            <th scope="col" class="num">A</th>
            <th scope="col" class="num">B</th>
            <th scope="col" aria-sort={down ? "descending" : "ascending"}>
              <button type="button" onClick={() => setDown(!down)}>B − A {down ? "↓" : "↑"}</button>
            </th>
            <th scope="col" class="num"><span class="hidden">B − A, number</span></th>
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, MOST).map((row) => (
            <tr key={row.question_id}>
              <td class="clip" title={row.question}>{row.question || row.question_id}</td>
              <td class="num"><a href={link("session", a.id, null, row.session_a)}>{fixed(row.a, 3)}</a></td>
              <td class="num"><a href={link("session", b.id, null, row.session_b)}>{fixed(row.b, 3)}</a></td>
              <td><Bar value={row.b - row.a} scale={scale} signed /></td>
              <td class={`num ${row.b < row.a ? "neg" : row.b > row.a ? "pos" : "muted"}`}>{signed(row.b - row.a, 3)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MOST && <p class="muted">The first {count(MOST)} of {count(rows.length)}.</p>}
    </>
  );
}

function pick(text: string | null, runs: Run[], fallback: number): Run | undefined {
  return runs.find((run) => String(run.id) === text) ?? runs[fallback] ?? runs[0];
}

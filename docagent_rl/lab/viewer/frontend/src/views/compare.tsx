import { useState } from "preact/hooks";
import type { Comparison, Pair, Run } from "../api/types";
import { useApi } from "../api/use";
import { withValue } from "../logic/filters";
import { count, fixed, signed, words } from "../logic/format";
import { leftOutText } from "../logic/outcome";
import { link, type Route } from "../logic/route";
import { chance, comparable, verdict } from "../logic/verdict";
import { Bar, Waiting } from "../ui/basics";
import { replace } from "../ui/location";

const MOST = 300;

/** Two runs, or two steps of one run, on the same questions, with the uncertainty of the difference. */
export function Compare({ route, runs }: { route: Route; runs: Run[] }) {
  const a = pick(route.query.get("a"), runs, 0);
  const b = pick(route.query.get("b"), runs, 1);
  const one = a?.id === b?.id;
  const validated = [a, b].every((run) => (run?.steps.val?.length ?? 0) > (one ? 1 : 0));
  const split = route.query.get("split") === "train" || (route.query.get("split") === null && !validated) ? "train" : "val";
  const measure = route.query.get("measure") ?? "reward";
  const [stepA, stepB] = [route.query.get("step_a") ?? "", route.query.get("step_b") ?? ""];
  const query = new URLSearchParams({ a: String(a?.id ?? 0), b: String(b?.id ?? 0), split, measure, step_a: stepA, step_b: stepB });
  const both = a !== undefined && b !== undefined;
  const { data, error, loading } = useApi<Comparison>(both ? `/api/compare?${query}` : null, (a?.revision ?? 0) * 100003 + (b?.revision ?? 0));
  const change = (key: string, value: string): void => replace({ ...route, query: withValue(route.query, key, value) });
  const terms = [...new Set([...(a?.terms ?? []), ...(b?.terms ?? [])])].filter((name) => name !== "total");
  return (
    <div class="page compare">
      <header class="page-head">
        <h1>Compare</h1>
        <Choose label="A" value={String(a?.id)} options={runs.map((run) => [String(run.id), run.name])} set={(value) => change("a", value)} />
        <Step label="step of A" value={stepA} run={a} split={split} first={one} set={(value) => change("step_a", value)} />
        <Choose label="B" value={String(b?.id)} options={runs.map((run) => [String(run.id), run.name])} set={(value) => change("b", value)} />
        <Step label="step of B" value={stepB} run={b} split={split} set={(value) => change("step_b", value)} />
        <Choose label="on" value={split} options={[["val", "validation"], ["train", "training"]]} set={(value) => change("split", value)} />
        <Choose label="by" value={measure} options={[["reward", "reward"], ["right", "answered right"], ["turns", "turns"], ["invalid", "invalid actions"], ...terms.map((name): [string, string] => [`term:${name}`, words(name)])]} set={(value) => change("measure", value)} />
      </header>
      {data === undefined ? <Waiting error={error} loading={loading} /> : (
        <>
          <Summary data={data} a={side(a, one ? data.step_a : null)} b={side(b, one ? data.step_b : null)} measure={measure} />
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

/** The step of a side; by default the last, or for two steps of one run the first and the last. */
function Step({ label, value, run, split, first = false, set }: { label: string; value: string; run: Run | undefined; split: "train" | "val"; first?: boolean; set: (value: string) => void }) {
  const steps = run?.steps[split] ?? [];
  const options = [["", first ? "first" : "last"] as [string, string], ...steps.map((step): [string, string] => [String(step), String(step)])];
  return <Choose label={label} value={value} options={options} set={set} />;
}

function side(run: Run | undefined, step: number | null): string {
  return `${run?.name ?? ""}${step === null ? "" : `, step ${step}`}`;
}

function Summary({ data, a, b, measure }: { data: Comparison; a: string; b: string; measure: string }) {
  const told = comparable(data);
  const rewarded = measure === "reward" || measure.startsWith("term:");
  const leftOut = measure === "right" ? leftOutText(data.unjudged_a, data.unjudged_b) : "";
  return (
    <section class="summary" aria-label="Result">
      <p class="verdict">{verdict(data, a, b)}</p>
      {rewarded && data.same_reward !== true && (
        <p class="muted">{data.same_reward === null && "It is unknown whether both use the same reward. "}{(data.formula_a ?? data.formula_b) !== null && <>Reward of A: {data.formula_a ?? "unknown"}. Reward of B: {data.formula_b ?? "unknown"}.</>}</p>
      )}
      {leftOut !== "" && <p class="muted">{leftOut}</p>}
      <dl class="answers">
        <div><dt>A, mean</dt><dd class="num">{fixed(data.mean_a, 3)}</dd></div>
        <div><dt>B, mean</dt><dd class="num">{fixed(data.mean_b, 3)}</dd></div>
        <div><dt>B − A</dt><dd class="num"><b>{signed(data.difference, 3)}</b></dd></div>
        {told && data.low !== null && data.high !== null && <div><dt>interval</dt><dd class="num">{signed(data.low, 3)} … {signed(data.high, 3)}</dd></div>}
        {told && data.p !== null && data.least_p !== null && <div><dt>p</dt><dd class="num" title={`The smallest possible p for ${data.documents} documents is ${chance(data.least_p)}`}>{chance(data.p)}</dd></div>}
        <div><dt>questions</dt><dd class="num">{count(data.won)} up, {count(data.lost)} down, {count(data.tied)} equal</dd></div>
        <div><dt>documents</dt><dd class="num">{count(data.documents)}</dd></div>
      </dl>
      {told && data.low !== null && data.high !== null && <Interval difference={data.difference} low={data.low} high={data.high} />}
      <p class="muted">{data.method}</p>
    </section>
  );
}

/** The difference with its interval, on an axis that includes zero. */
function Interval({ difference, low, high }: { difference: number; low: number; high: number }) {
  const most = Math.max(Math.abs(low), Math.abs(high), 1e-9) * 1.15;
  const x = (value: number): number => 50 + (50 * value) / most;
  return (
    <svg class="interval" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label={`Difference ${fixed(difference, 3)}, from ${fixed(low, 3)} to ${fixed(high, 3)}`}>
      <line class="axis" x1="0" x2="100" y1="6" y2="6" />
      <line class="zero" x1="50" x2="50" y1="0" y2="12" />
      <rect class="range" x={x(low)} width={x(high) - x(low)} y="4" height="4" />
      <rect class="mean" x={x(difference) - 0.25} width="0.5" y="1" height="10" />
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
              <td class="num"><a href={link("trajectory", a.id, null, row.trajectory_a)}>{fixed(row.a, 3)}</a></td>
              <td class="num"><a href={link("trajectory", b.id, null, row.trajectory_b)}>{fixed(row.b, 3)}</a></td>
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

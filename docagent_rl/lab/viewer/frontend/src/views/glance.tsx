import { useState } from "preact/hooks";
import { runPath } from "../api/paths";
import type { Funnel, Metrics, Run, Warning } from "../api/types";
import { useApi } from "../api/use";
import { plotsOf, type Plot } from "../logic/curves";
import { smoothed, pointsOf } from "../logic/chart";
import { withValue } from "../logic/filters";
import { count, plural, steps as stepsText } from "../logic/format";
import { link, type Route } from "../logic/route";
import { FunnelBars } from "../parts/funnel";
import { Chart, type Line } from "../ui/chart";
import { Section, Waiting } from "../ui/basics";
import { go, replace } from "../ui/location";
import { Verdict } from "./funnel";

/** A run at a glance: warnings, where evidence gets lost, and curves, optionally with those of another run. */
export function Glance({ route, run, runs }: { route: Route; run: Run; runs: Run[] }) {
  const other = runs.find((each) => String(each.id) === route.query.get("with") && each.id !== run.id);
  const metrics = useApi<Metrics>(runPath(run.id, "metrics"), run.revision);
  const beside = useApi<Metrics>(other ? runPath(other.id, "metrics") : null, other?.revision ?? 0);
  const warnings = useApi<Warning[]>(runPath(run.id, "warnings"), run.revision);
  const latest = latestOf(run);
  const funnel = useApi<Funnel>(runPath(run.id, "funnel", withValue(latest, "by", "none")), run.revision);
  const group = funnel.data?.groups[0];
  const indexing = run.indexing !== null;
  return (
    <div class="page glance">
      <header class="page-head">
        <h1>{run.name}</h1>
        <p class="muted num">{facts(run)}</p>
      </header>
      <div class="glance-top">
        <Section title="Warnings" aside={run.indexing === null && warnings.data && <span class="muted num">{warnings.data.length}</span>}>
          {warnings.data === undefined ? <Waiting {...warnings} /> : <Warnings warnings={warnings.data} run={run.id} indexing={indexing} />}
        </Section>
        <Section title={`Evidence funnel${latest.has("step") ? ` of ${latest.get("split") === "val" ? "validation" : "training"}, step ${latest.get("step")}` : ""}`} aside={<a href={link("funnel", run.id, latest)}>By step, system, evidence</a>}>
          {funnel.data === undefined || group === undefined ? (
            <Waiting {...funnel} empty={indexing ? INDEXING : "The evidence is unknown for all trajectories here."} />
          ) : (
            <>
              <Verdict group={group} />
              <FunnelBars group={group} run={run.id} filters={latest} />
            </>
          )}
        </Section>
      </div>
      {metrics.data === undefined ? <Waiting {...metrics} /> : (
        <Curves metrics={metrics.data} beside={other && beside.data ? { run: other, metrics: beside.data } : null} run={run} runs={runs} route={route} />
      )}
    </div>
  );
}

/** The trajectories that represent a run at a glance: its last validation, otherwise its last step. */
function latestOf(run: Run): URLSearchParams {
  const split = run.steps.val?.length ? "val" : "train";
  const step = run.kind === "training" ? run.steps[split]?.at(-1) : undefined;
  return new URLSearchParams(step === undefined ? {} : { split, step: String(step) });
}

const INDEXING = "The run is still being indexed.";

function Warnings({ warnings, run, indexing }: { warnings: Warning[]; run: number; indexing: boolean }) {
  if (warnings.length === 0) return <p class="muted">{indexing ? `${INDEXING} Warnings will appear here.` : "No warnings."}</p>;
  return (
    <ul class="warnings">
      {warnings.map((warning) => (
        <li key={warning.id} class={warning.severity}>
          <p class="warning-title">
            <span class={`tag ${warning.severity}`}>{warning.severity === "bad" ? "serious" : "check"}</span>
            <b>{warning.title}</b>
            <span class="muted num">{stepsText(warning.steps)}</span>
          </p>
          <p>{warning.text}</p>
          {warning.filter !== null && warning.filter !== "" && (
            <a href={link("trajectories", run, new URLSearchParams(warning.filter))}>Show the trajectories</a>
          )}
        </li>
      ))}
    </ul>
  );
}

const SPLITS = ["train", "val"] as const;

interface Beside {
  run: Run;
  metrics: Metrics;
}

function Curves({ metrics, beside, run, runs, route }: { metrics: Metrics; beside: Beside | null; run: Run; runs: Run[]; route: Route }) {
  const smooth = route.query.get("smooth") === "1";
  const find = route.query.get("metric") ?? "";
  const change = (key: string, value: string | null): void => replace({ ...route, query: withValue(route.query, key, value) });
  if (metrics.names.length === 0) return <p class="muted">This run has no metrics.</p>;
  const groups = find === "" ? plotsOf(metrics.names) : found(metrics.names, find);
  const open = (step: number): void => go(link("trajectories", run.id, new URLSearchParams({ step: String(step) })));
  return (
    <>
      <div class="page-tools">
        <FindMetric value={find} set={(text) => change("metric", text)} />
        {runs.length > 1 && (
          <label>
            <span class="muted">compare with </span>
            <select value={String(beside?.run.id ?? "")} onChange={(event) => change("with", event.currentTarget.value)}>
              <option value="">no run</option>
              {runs.filter((each) => each.id !== run.id).map((each) => <option key={each.id} value={String(each.id)}>{each.name}</option>)}
            </select>
          </label>
        )}
        <label class="check"><input type="checkbox" checked={smooth} onChange={() => change("smooth", smooth ? null : "1")} /> smoothed</label>
      </div>
      {groups.size === 0 && <p class="muted">No metric has such a name.</p>}
      {[...groups].map(([title, plots]) => (
        <Section key={title} title={title}>
          <div class="charts">
            {plots.map((plot) => (
              <Chart key={plot.title} title={plot.title} unit={plot.unit} lines={linesOf(plot, metrics, beside, smooth)} onStep={open} />
            ))}
          </div>
        </Section>
      ))}
    </>
  );
}

function FindMetric({ value, set }: { value: string; set: (text: string | null) => void }) {
  const [text, setText] = useState(value);
  return (
    <input
      type="search"
      placeholder="Find a metric by name"
      aria-label="Find a metric by name"
      value={text}
      onInput={(event) => {
        setText(event.currentTarget.value);
        set(event.currentTarget.value.trim() || null);
      }}
    />
  );
}

function found(names: readonly string[], text: string): Map<string, Plot[]> {
  const wanted = text.toLowerCase().split(/\s+/);
  const matching = names.filter((name) => wanted.every((word) => name.toLowerCase().includes(word))).slice(0, 60);
  const plots = matching.map((name): Plot => ({ title: name, series: [{ name, label: "value" }] }));
  return plots.length === 0 ? new Map() : new Map([[plural(plots.length, "number"), plots]]);
}

function linesOf(plot: Plot, metrics: Metrics, beside: Beside | null, smooth: boolean): Line[] {
  const own = told(plotted(plot, metrics, "", smooth));
  if (beside === null) return own.map((line, hue) => ({ ...line, hue }));
  const theirs = plotted(plot, beside.metrics, ` · ${beside.run.name}`, smooth).map((line) => ({ ...line, beside: true }));
  return [...own, ...told(theirs)];
}

/** If there are many lines, those that are always zero are left out. */
function told(lines: Line[]): Line[] {
  const some = lines.filter((line) => line.values.some((value) => value !== null && value !== 0));
  return lines.length > 3 && some.length > 0 ? some : lines;
}

/** The lines of a plot; if it has both, their labels say whether they are from training or validation. */
function plotted(plot: Plot, metrics: Metrics, behind: string, smooth: boolean): Line[] {
  const splits = SPLITS.filter((split) => plot.series.some(({ name }) => metrics[split].values[name] !== undefined));
  return plot.series.flatMap(({ name, label }, hue) => splits.flatMap((split): Line[] => {
    const values = metrics[split].values[name];
    if (values === undefined || values.every((value) => value === null)) return [];
    const line = { label: `${label}${splits.length > 1 ? `, ${split}` : ""}${behind}`, steps: metrics[split].steps, values, hue };
    if (!smooth) return [line];
    const points = smoothed(pointsOf(line.steps, values), 0.8);
    return [{ ...line, steps: points.map(([step]) => step), values: points.map(([, value]) => value) }];
  }));
}

function facts(run: Run): string {
  const train = run.steps.train ?? [];
  const val = run.steps.val ?? [];
  return [
    run.systems.join(", "),
    plural(run.trajectories, "trajectory"),
    train.length > 0 && `${stepsText(train)} trained`,
    val.length > 0 && `validated ${val.length === 1 ? "once" : `${count(val.length)} times`}`,
  ].filter(Boolean).join(" · ");
}

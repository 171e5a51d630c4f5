import { useState } from "preact/hooks";
import { runPath } from "../api/paths";
import type { Funnel, Metrics, Run, Warning } from "../api/types";
import { useApi } from "../api/use";
import { plotsOf, type Plot } from "../logic/curves";
import { withValue } from "../logic/filters";
import { curvesOf } from "../logic/lines";
import { count, indexingText, plural, steps as stepsText } from "../logic/format";
import { link, type Route } from "../logic/route";
import { FunnelBars } from "../parts/funnel";
import { Chart } from "../ui/chart";
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
          {warnings.data === undefined ? <Waiting {...warnings} /> : <Warnings warnings={warnings.data} run={run} />}
        </Section>
        <Section title={`Evidence funnel${latest.has("step") ? ` of ${latest.get("split") === "val" ? "validation" : "training"}, step ${latest.get("step")}` : ""}`} aside={<a href={link("funnel", run.id, latest)}>By step, system, evidence</a>}>
          {funnel.data === undefined || group === undefined ? (
            <Waiting {...funnel} empty={indexing ? indexingText(run) : "The evidence is unknown for all trajectories here."} />
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

function Warnings({ warnings, run }: { warnings: Warning[]; run: Run }) {
  if (warnings.length === 0) return <p class="muted">{run.indexing === null ? "No warnings." : `${indexingText(run)} Warnings appear here afterwards.`}</p>;
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
            <a href={link("trajectories", run.id, new URLSearchParams(warning.filter))}>Show the trajectories</a>
          )}
        </li>
      ))}
    </ul>
  );
}

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
            {plots.flatMap((plot) =>
              curvesOf(plot, metrics, beside && { name: beside.run.name, metrics: beside.metrics }, smooth).map(({ title: name, lines }) => (
                <Chart key={name} title={name} unit={plot.unit} lines={lines} onStep={open} />
              )),
            )}
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

function facts(run: Run): string {
  const train = run.steps.train ?? [];
  const val = run.steps.val ?? [];
  return [
    run.systems.join(", "),
    run.indexing !== null ? indexingText(run) : plural(run.trajectories, "trajectory"),
    train.length > 0 && `${stepsText(train)} trained`,
    val.length > 0 && `validated ${val.length === 1 ? "once" : `${count(val.length)} times`}`,
  ].filter(Boolean).join(" · ");
}

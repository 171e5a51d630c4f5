import { useState } from "preact/hooks";
import { exported } from "../api/client";
import { runPath } from "../api/paths";
import type { Facets, Funnel, FunnelGroup, Run } from "../api/types";
import { useApi } from "../api/use";
import { filtersOf, withValue } from "../logic/filters";
import { count, indexingText, percent, plural, words } from "../logic/format";
import { funnelFigure } from "../logic/figure";
import { ANYWAY, MAIN_STAGES, STAGES, UNJUDGED, cause, reached, rightAnyway, worst } from "../logic/funnel";
import { accuracyText } from "../logic/outcome";
import { link, type Route } from "../logic/route";
import { Chips, FacetPanel } from "../parts/facets";
import { FunnelBars } from "../parts/funnel";
import { Chart } from "../ui/chart";
import { Section, Waiting } from "../ui/basics";
import { go, replace } from "../ui/location";
import { PANEL_PX } from "./trajectories";
import { save } from "../ui/save";

const BY: [string, string][] = [["none", "nothing"], ["step", "step"], ["system", "system"], ["kind", "evidence"], ["dataset", "dataset"], ["split", "split"]];

/** Where the evidence for questions gets lost on the way to a right answer. */
export function FunnelView({ route, run }: { route: Route; run: Run }) {
  // an exported file contains one funnel, for its own trajectories
  const by = exported ? "none" : BY.find(([each]) => each === route.query.get("by"))?.[0] ?? "none";
  const filters = filtersOf(route.query);
  const whole = useApi<Funnel>(runPath(run.id, "funnel", withValue(filters, "by", "none")), run.revision);
  const parts = useApi<Funnel>(by === "none" ? null : runPath(run.id, "funnel", withValue(filters, "by", by)), run.revision);
  const facets = useApi<Facets>(runPath(run.id, "facets", filters), run.revision);
  const change = (query: URLSearchParams): void => replace({ ...route, query });
  const all = whole.data?.groups[0];
  const [panel, setPanel] = useState(() => !exported && window.innerWidth > PANEL_PX);
  return (
    <div class={panel ? "with-panel trajectories" : "trajectories"}>
      {panel && <FacetPanel facets={facets.data} query={route.query} change={change} />}
      <div class="page">
        <div class="page-head">
          {!exported && <button type="button" class="quiet" aria-pressed={panel} onClick={() => setPanel(!panel)}>Filters</button>}
          <h1>Evidence funnel</h1>
          {!exported && <label>
            <span class="muted">by </span>
            <select value={by} onChange={(event) => change(withValue(route.query, "by", event.currentTarget.value))}>
              {BY.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
            </select>
          </label>}
          {whole.data && all && <SaveFigure group={all} name={run.name} />}
          <Chips query={route.query} change={change} />
          {!exported && <span class="muted">{together(run, filters)}</span>}
        </div>
        {whole.data === undefined || all === undefined ? (
          <Waiting error={whole.error} loading={whole.loading} empty={run.indexing === null ? "The evidence is unknown for all trajectories here." : indexingText(run)} />
        ) : (
          <>
            <Verdict group={all} />
            <FunnelBars group={all} run={run.id} filters={filters} />
          </>
        )}
        {by !== "none" && (parts.data === undefined ? <Waiting error={parts.error} loading={parts.loading} /> : (
          <>
            {by === "step" && <OverSteps funnel={parts.data} run={run.id} filters={filters} />}
            <Section title={`By ${BY.find(([each]) => each === by)?.[1]}`}><Table funnel={parts.data} by={by} run={run.id} filters={filters} /></Section>
          </>
        ))}
      </div>
    </div>
  );
}

/** What a funnel combines, if no filter separates it. */
function together(run: Run, filters: URLSearchParams): string {
  const splits = (["train", "val"] as const).filter((split) => run.steps[split]?.length && (!filters.has("split") || filters.getAll("split").includes(split)));
  const several = splits.some((split) => (run.steps[split]?.length ?? 0) > 1) && !filters.has("step");
  const parts = [splits.length > 1 && "training and validation", several && "all steps"].filter(Boolean);
  return parts.length > 0 ? `${parts.join(", ")} combined` : "";
}

function SaveFigure({ group, name }: { group: FunnelGroup; name: string }) {
  const file = `funnel-${name.replace(/[^\w.-]+/g, "-")}.svg`;
  return (
    <button type="button" class="quiet" onClick={() => save(file, "image/svg+xml", funnelFigure(group, name))}>
      Save as figure
    </button>
  );
}

/** Accuracy, and what fails most often if the answer is wrong. */
export function Verdict({ group }: { group: FunnelGroup }) {
  const most = worst(group);
  const [name, what] = most === null ? [] : cause(most.stage.id).split(": ");
  return (
    <p class="verdict">
      {accuracyText(group)}{" "}
      {most !== null && <>The most frequent failure is <b>{name}</b>: {what} ({plural(most.lost, "trajectory")}).</>}
    </p>
  );
}

function Table({ funnel, by, run, filters }: { funnel: Funnel; by: string; run: number; filters: URLSearchParams }) {
  const apart = [
    { ...ANYWAY, of: rightAnyway },
    { ...UNJUDGED, of: (group: FunnelGroup) => group.unjudged },
  ].filter(({ of }) => funnel.groups.some((group) => of(group) > 0));
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="The funnel by group">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">{BY.find(([each]) => each === by)?.[1]}</th>
            {STAGES.map((stage) => <th key={stage.id} scope="col" class="num" title={stage.about}>{stage.label}</th>)}
            {apart.map((each) => <th key={each.id} scope="col" class="num" title={each.about}>{each.label}</th>)}
          </tr>
        </thead>
        <tbody>
          {funnel.groups.map((group) => (
            <tr key={group.key}>
              <th scope="row"><a href={link("trajectories", run, withValue(filters, by, group.key))}>{words(group.key) || "none"}</a></th>
              {STAGES.map((stage, at) => {
                const value = reached(group, stage.id);
                if (value === null) return <td key={stage.id} class="num muted">–</td>;
                const share = group.trajectories > 0 ? value / group.trajectories : 0;
                return (
                  <td key={stage.id} class={`num heat h${Math.round(share * 5)}`} title={`${count(value)} of ${count(group.trajectories)}`}>
                    {at === 0 ? count(value) : percent(value, group.trajectories)}
                  </td>
                );
              })}
              {apart.map((each) => <td key={each.id} class="num" title={`${count(each.of(group))} of ${count(group.trajectories)}`}>{percent(each.of(group), group.trajectories)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function OverSteps({ funnel, run, filters }: { funnel: Funnel; run: number; filters: URLSearchParams }) {
  const groups = [...funnel.groups].sort((a, b) => Number(a.key) - Number(b.key));
  const steps = groups.map((group) => Number(group.key));
  if (steps.length < 2 || steps.some(Number.isNaN)) return null;
  const lines = MAIN_STAGES.map((stage) => ({
    label: stage.label,
    steps,
    values: groups.map((group) => {
      const value = reached(group, stage.id);
      return value === null || group.trajectories === 0 ? null : value / group.trajectories;
    }),
  }));
  return (
    <div class="charts wide">
      <Chart title="Share of trajectories that reached a stage" lines={lines} onStep={(step) => go(link("trajectories", run, withValue(filters, "step", String(step))))} />
    </div>
  );
}

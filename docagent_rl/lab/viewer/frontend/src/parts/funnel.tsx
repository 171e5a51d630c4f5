import type { ComponentChildren } from "preact";
import type { FunnelGroup } from "../api/types";
import { withValue } from "../logic/filters";
import { count, percent, plural } from "../logic/format";
import { ANYWAY, BRANCHES, UNJUDGED, losses, rightAnyway, type Stage, type Step } from "../logic/funnel";
import { branchText } from "../logic/outcome";
import { link } from "../logic/route";

interface Where {
  group: FunnelGroup;
  run: number;
  filters: URLSearchParams;
}

/** The stages of one group of trajectories as bars: each is the one before, less those that left, which are linked. */
export function FunnelBars(where: Where) {
  const { group } = where;
  const anyway = rightAnyway(group);
  return (
    <div class="funnel-whole">
      <p class="funnel-row funnel-head muted" aria-hidden="true">
        <span>stage</span><span /><span class="funnel-count">reached</span><span class="funnel-share">of all</span>
      </p>
      <ol class="funnel">
        {losses(group).map((step) => <StageRow key={step.stage.id} step={step} {...where} />)}
      </ol>
      {anyway + group.unjudged > 0 && (
        <ul class="funnel-apart" aria-label="Outside the funnel">
          {anyway > 0 && <Apart stage={ANYWAY} trajectories={anyway} {...where}><Guessed {...where} /></Apart>}
          {group.unjudged > 0 && <Apart stage={UNJUDGED} trajectories={group.unjudged} {...where}><Show query={withValue(where.filters, "outcome", "unjudged")} run={where.run} trajectories={group.unjudged} /></Apart>}
        </ul>
      )}
    </div>
  );
}

function StageRow({ step, ...where }: Where & { step: Step }) {
  const { group } = where;
  const { stage, trajectories } = step;
  const left = step.lost + step.anyway + step.unjudged;
  return (
    <li class="funnel-row">
      <span class="funnel-label" title={stage.about}>{stage.label}</span>
      {trajectories === null ? <span class="funnel-unknown muted">unknown</span> : (
        <Bars stage={stage} all={group.trajectories} trajectories={trajectories} gone={left} />
      )}
      <Numbers trajectories={trajectories} all={group.trajectories} />
      <span class="funnel-about muted">{stage.about}</span>
      {left > 0 && <Left step={step} left={left} {...where} />}
      {stage.id === "looked" && <Branches {...where} />}
    </li>
  );
}

function Bars({ stage, all, trajectories, gone, fill = "fill" }: { stage: Stage; all: number; trajectories: number; gone?: number; fill?: string }) {
  const width = (part: number): string => `${all > 0 ? (100 * part) / all : 0}%`;
  return (
    <span class="funnel-bar" role="img" aria-label={`${stage.label}: ${plural(trajectories, "trajectory")}, ${percent(trajectories, all)}`}>
      <span class={fill} style={{ width: width(trajectories) }} />
      {gone !== undefined && <span class="gone" style={{ width: width(gone) }} />}
    </span>
  );
}

function Numbers({ trajectories, all }: { trajectories: number | null; all: number }) {
  return (
    <>
      <span class="num funnel-count">{trajectories === null ? "" : count(trajectories)}</span>
      <span class="num muted funnel-share">{trajectories === null ? "" : percent(trajectories, all)}</span>
    </>
  );
}

/** Those that reached the stage before but not this one, by what their answer was. */
function Left({ step, left, group, run, filters }: Where & { step: Step; left: number }) {
  const own = group.filters[step.stage.id] ?? "";
  const to = (outcome: string | null): string => {
    const query = lostQuery(filters, own);
    if (outcome !== null) query.set("outcome", outcome);
    return link("trajectories", run, query);
  };
  return (
    <span class="funnel-left">
      <span class="muted">{count(left)} left here:</span>
      {step.lost > 0 && <a class="funnel-lost" href={to(null)}>{count(step.lost)} wrong</a>}
      {step.anyway > 0 && <a href={to("right")}>{count(step.anyway)} right anyway</a>}
      {step.unjudged > 0 && <a href={to("unjudged")}>{count(step.unjudged)} unjudged</a>}
    </span>
  );
}

/** A row below the stages. */
function Apart({ stage, trajectories, group, children }: Where & { stage: Stage; trajectories: number; children: ComponentChildren }) {
  return (
    <li class="funnel-row">
      <span class="funnel-label" title={stage.about}>{stage.label}</span>
      <Bars stage={stage} all={group.trajectories} trajectories={trajectories} fill={stage.id} />
      <Numbers trajectories={trajectories} all={group.trajectories} />
      <span class="funnel-about muted">{stage.about}</span>
      <span class="funnel-left">{children}</span>
    </li>
  );
}

function Show({ query, run, trajectories }: { query: URLSearchParams; run: number; trajectories: number }) {
  return <a href={link("trajectories", run, query)}>Show {plural(trajectories, "trajectory")}</a>;
}

/** Right answers of trajectories that were not even shown every gold page. */
function Guessed({ group, run, filters }: Where) {
  if (group.guessed === 0) return null;
  return (
    <>
      <a href={link("trajectories", run, withValue(filters, "guessed", "1"))}>{count(group.guessed)} of them</a>
      <span class="muted">without having been shown the evidence</span>
    </>
  );
}

/** How the evidence was read, and how often that led to a right answer. */
function Branches({ group, run, filters }: Where) {
  const ways = BRANCHES.filter(({ id }) => (group.branches[id]?.trajectories ?? 0) > 0);
  if (ways.length === 0) return null;
  return (
    <span class="funnel-left muted">
      {ways.map(({ id, label, about }) => (
        <span key={id} title={about}>
          <a href={link("trajectories", run, withValue(filters, "branch", id))}>{count(group.branches[id]!.trajectories)} {label}</a>{branchText(group.branches[id]!)}
        </span>
      ))}
    </span>
  );
}

/** The filter for the trajectories lost at a stage, as named by the server. */
function lostQuery(filters: URLSearchParams, told: string): URLSearchParams {
  const query = new URLSearchParams(filters);
  const more = new URLSearchParams(told);
  for (const key of new Set(more.keys())) query.delete(key);
  for (const [key, value] of more) query.append(key, value);
  return query;
}

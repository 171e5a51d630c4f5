import type { FunnelGroup } from "../api/types";
import { withValue } from "../logic/filters";
import { count, percent, plural } from "../logic/format";
import { BRANCHES, UNJUDGED, losses } from "../logic/funnel";
import { branchText } from "../logic/outcome";
import { link } from "../logic/route";

/** The stages of one group of trajectories as bars, with links to what was lost between them. */
export function FunnelBars({ group, run, filters }: { group: FunnelGroup; run: number; filters: URLSearchParams }) {
  const steps = losses(group);
  return (
    <ol class="funnel">
      {steps.map(({ stage, trajectories, lost }) => (
        <li key={stage.id}>
          <span class="funnel-label" title={stage.about}>{stage.label}</span>
          {trajectories === null ? (
            <span class="funnel-unknown muted">unknown</span>
          ) : (
            <span class="funnel-bar" role="img" aria-label={`${stage.label}: ${plural(trajectories, "trajectory")}, ${percent(trajectories, group.trajectories)}`}>
              <span class="fill" style={{ width: `${group.trajectories ? (100 * trajectories) / group.trajectories : 0}%` }} />
              <span class="gone" style={{ width: `${group.trajectories ? (100 * lost) / group.trajectories : 0}%` }} />
            </span>
          )}
          <span class="num funnel-count">{trajectories === null ? "" : count(trajectories)}</span>
          <span class="num muted funnel-share">{trajectories === null ? "" : percent(trajectories, group.trajectories)}</span>
          <span class="funnel-lost">
            {lost > 0 && (
              <a href={link("trajectories", run, lostQuery(filters, group.filters[stage.id] ?? ""))}>
                <span aria-hidden="true">−</span>
                <span class="num">{count(lost)}</span> lost
              </a>
            )}
          </span>
          <span class="funnel-about muted">{stage.about}</span>
          {stage.id === "looked" && <Branches group={group} run={run} filters={filters} />}
          {stage.id === "right" && group.guessed > 0 && (
            <span class="funnel-ways"><a href={link("trajectories", run, withValue(filters, "guessed", "1"))}>{count(group.guessed)} of them</a> without having been shown the evidence</span>
          )}
        </li>
      ))}
      {group.unjudged > 0 && <Unjudged group={group} run={run} filters={filters} />}
    </ol>
  );
}

/** The unjudged answers, below the stages: they are neither right nor lost. */
function Unjudged({ group, run, filters }: { group: FunnelGroup; run: number; filters: URLSearchParams }) {
  const share = percent(group.unjudged, group.trajectories);
  return (
    <li>
      <span class="funnel-label" title={UNJUDGED.about}>{UNJUDGED.label}</span>
      <span class="funnel-bar" role="img" aria-label={`${UNJUDGED.label}: ${plural(group.unjudged, "trajectory")}, ${share}`}>
        <span class="unjudged" style={{ width: `${(100 * group.unjudged) / group.trajectories}%` }} />
      </span>
      <span class="num funnel-count">{count(group.unjudged)}</span>
      <span class="num muted funnel-share">{share}</span>
      <span class="funnel-lost">
        <a href={link("trajectories", run, withValue(filters, "outcome", "unjudged"))}>show</a>
      </span>
      <span class="funnel-about muted">{UNJUDGED.about}</span>
    </li>
  );
}

/** How the evidence was read, and how often that led to a right answer. */
function Branches({ group, run, filters }: { group: FunnelGroup; run: number; filters: URLSearchParams }) {
  const ways = BRANCHES.filter(({ id }) => (group.branches[id]?.trajectories ?? 0) > 0);
  return (
    <span class="funnel-ways muted">
      {ways.map(({ id, label, about }) => (
        <span key={id} title={about}>
          <a href={link("trajectories", run, withValue(filters, "branch", id))}>{label} {count(group.branches[id]!.trajectories)}</a>{branchText(group.branches[id]!)}
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

import type { Funnel, FunnelGroup } from "../api/types";
import { count, percent, plural } from "../logic/format";
import { losses } from "../logic/funnel";
import { link } from "../logic/route";

/** The stages of one group of sessions as bars; between them what was lost, as a link to it. */
export function FunnelBars({ funnel, group, run, filters }: { funnel: Funnel; group: FunnelGroup; run: number; filters: URLSearchParams }) {
  const steps = losses(funnel, group);
  return (
    <ol class="funnel">
      {steps.map(({ stage, sessions, lost, before }) => (
        <li key={stage.id}>
          <span class="funnel-label" title={stage.about}>{stage.label}</span>
          {sessions === null ? (
            <span class="funnel-unknown muted">not known</span>
          ) : (
            <span class="funnel-bar" role="img" aria-label={`${stage.label}: ${plural(sessions, "session")}, ${percent(sessions, group.sessions)}`}>
              <span class="fill" style={{ width: `${group.sessions ? (100 * sessions) / group.sessions : 0}%` }} />
              {before !== null && <span class="gone" style={{ width: `${group.sessions ? (100 * Math.max(0, before - sessions)) / group.sessions : 0}%` }} />}
            </span>
          )}
          <span class="num funnel-count">{sessions === null ? "" : count(sessions)}</span>
          <span class="num muted funnel-share">{sessions === null ? "" : percent(sessions, group.sessions)}</span>
          <span class="funnel-lost">
            {lost > 0 && (
              <a href={link("sessions", run, lostQuery(filters, funnel, group, stage.id))}>
                <span aria-hidden="true">−</span>
                <span class="num">{count(lost)}</span> lost
              </a>
            )}
          </span>
          <span class="funnel-about muted">{stage.about}</span>
        </li>
      ))}
    </ol>
  );
}

/** The sessions lost at a stage: as the server names them, else by how far they came. */
function lostQuery(filters: URLSearchParams, funnel: Funnel, group: FunnelGroup, stage: string): URLSearchParams {
  const query = new URLSearchParams(filters);
  const told = group.filters?.[stage];
  if (told !== undefined) {
    const more = new URLSearchParams(told);
    for (const key of new Set(more.keys())) query.delete(key);
    for (const [key, value] of more) query.append(key, value);
    return query;
  }
  const at = funnel.stages.findIndex((each) => each.id === stage);
  const before = funnel.stages.slice(0, at).reverse();
  query.delete("stage");
  const known = before.findIndex((each) => group.counts[each.id] !== null && group.counts[each.id] !== undefined);
  for (const each of before.slice(0, known < 0 ? before.length : known + 1)) query.append("stage", each.id);
  return query;
}

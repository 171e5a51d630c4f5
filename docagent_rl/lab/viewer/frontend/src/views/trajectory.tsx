import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { groupPath, runPath, trajectoryPath } from "../api/paths";
import { offered } from "../api/client";
import type { Rows, Run, Trajectory } from "../api/types";
import { useApi } from "../api/use";
import { MEASURES, MEASURE_LABELS, measuresOf, scaleOf, type Measure } from "../logic/colouring";
import { listOf, withValue } from "../logic/filters";
import { plural } from "../logic/format";
import { pathOf } from "../logic/path";
import { longest } from "../logic/repeats";
import { link, type Route } from "../logic/route";
import { CreditFacts } from "../parts/credit";
import { TrajectoryHead } from "../parts/head";
import { Messages } from "../parts/messages";
import { Outline } from "../parts/outline";
import { Strip } from "../parts/strip";
import { Terms } from "../parts/terms";
import { Thumbs, ThumbsLegend } from "../parts/thumbs";
import { TokenLegend } from "../parts/tokens";
import { TurnCard, type TokenMode } from "../parts/turn";
import { Section, Waiting } from "../ui/basics";
import { useKeys } from "../ui/keys";
import { go, replace } from "../ui/location";

/** One trajectory: the conversation with its pages, between the list of turns and the documents. */
export function TrajectoryView({ route, run }: { route: Route; run: Run }) {
  const id = Number(route.id);
  const { data, error, loading } = useApi<Trajectory>(trajectoryPath(run.id, id), run.revision);
  const near = useNeighbours(route, run, id);
  const trajectory = data?.id === id ? data : undefined;
  useKeys({
    "[": () => near.previous !== null && go(near.previous),
    "]": () => near.next !== null && go(near.next),
    u: () => go(near.list),
  });
  if (trajectory === undefined) return <Waiting error={error} loading={loading || data !== undefined} />;
  return <Body key={trajectory.id} trajectory={trajectory} route={route} run={run} near={near} />;
}

function Body({ trajectory, route, run, near }: { trajectory: Trajectory; route: Route; run: Run; near: Neighbours }) {
  const [current, setCurrent] = useState<number | null>(null);
  const tokens = useTokenMode(trajectory, route);
  const paths = useMemo(() => pathOf(trajectory), [trajectory]);
  const before = useMemo(() => [trajectory.prompt, ...trajectory.turns.map((turn) => turn.observation)].map(longest), [trajectory]);
  const quiet = useRef(0);
  const toTurn = (turn: number, smooth = true): void => {
    quiet.current = Date.now() + 600;
    setCurrent(turn);
    replace({ ...route, query: withValue(route.query, "turn", String(turn)) });
    document.getElementById(`turn-${turn}`)?.scrollIntoView({ behavior: smooth && !still() ? "smooth" : "auto", block: "start" });
  };
  useEffect(() => {
    const turn = Number(route.query.get("turn") ?? 0);
    if (turn > 0) toTurn(turn, false);
    else document.getElementById("main")?.scrollTo(0, 0);
  }, []);
  useTurnInSight(trajectory, (turn) => Date.now() > quiet.current && setCurrent(turn));
  const by = (step: number): void => {
    const numbers = trajectory.turns.map((turn) => turn.number);
    const at = current === null ? (step > 0 ? 0 : -1) : numbers.indexOf(current) + step;
    const turn = numbers[Math.max(0, Math.min(numbers.length - 1, at))];
    if (turn !== undefined) toTurn(turn);
  };
  const group = link("group", run.id, groupQuery(trajectory), trajectory.uid);
  useKeys({
    j: () => by(1),
    k: () => by(-1),
    t: tokens.toggle,
    c: tokens.next,
    g: () => offered(groupPath(run.id, trajectory.uid, new URLSearchParams())) && go(group),
  });
  return (
    <div class="trajectory">
      <TrajectoryHead trajectory={trajectory} run={run} group={group} previous={near.previous} next={near.next} list={near.list} place={near.place} />
      <div class="trajectory-strip">
        <Strip trajectory={trajectory} toTurn={toTurn} current={current} />
        <TokenControl tokens={tokens} route={route} />
      </div>
      <div class="trajectory-body">
        <Outline trajectory={trajectory} current={current} toTurn={toTurn} />
        <div class="conversation">
          {trajectory.error !== null && trajectory.error !== "" && <pre class="notice bad">{trajectory.error}</pre>}
          <article class="turn prompt" aria-label="Prompt">
            <header class="turn-head">
              <h3>Prompt</h3>
              <span class="grow" />
              <span class="num muted">{plural(trajectory.prompt_tokens, "token")}</span>
            </header>
            <div class="observation"><Messages messages={trajectory.prompt} run={run.id} trajectory={trajectory.id} folded /></div>
          </article>
          {trajectory.turns.map((turn, at) => (
            <TurnCard key={turn.number} turn={turn} run={run.id} trajectory={trajectory.id} tokens={tokens.mode} current={turn.number === current} before={before[at] ?? null} />
          ))}
        </div>
        <aside class="rail" aria-label="About this trajectory">
          <Section title="Reward"><Terms trajectory={trajectory} toTurn={toTurn} /></Section>
          {paths.length > 0 && (
            <Section title={paths.length > 1 ? "Documents" : "Document"}>
              <ThumbsLegend overview={paths.some((path) => [...path.marks.values()].some((marks) => marks.overview))} />
              {paths.map((path) => <Thumbs key={path.doc} path={path} run={run.id} toTurn={toTurn} />)}
            </Section>
          )}
          {trajectory.credit && <Section title="Credit"><CreditFacts credit={trajectory.credit} /></Section>}
        </aside>
      </div>
    </div>
  );
}

interface TokenState {
  mode: TokenMode | null;
  measure: Measure;
  measures: Measure[];
  toggle: () => void;
  next: () => void;
}

/** Whether tokens are shown, and what their colour means; both are part of the address. */
function useTokenMode(trajectory: Trajectory, route: Route): TokenState {
  const all = useMemo(() => trajectory.turns.flatMap((turn) => (turn.tokens ? [turn.tokens] : [])), [trajectory]);
  const measures = useMemo(() => measuresOf(all), [all]);
  const wanted = MEASURES.find((each) => each === route.query.get("colour"));
  const measure = wanted !== undefined && measures.includes(wanted) ? wanted : (measures[0] ?? "none");
  const scale = useMemo(() => scaleOf(all, measure), [all, measure]);
  const show = (value: Measure | null): void => replace({ ...route, query: withValue(route.query, "colour", value) });
  const open = route.query.has("colour") && all.length > 0;
  return {
    mode: open ? { measure, scale } : null,
    measure,
    measures: all.length > 0 ? measures : [],
    toggle: () => show(open ? null : measure),
    next: () => show(measures[(measures.indexOf(measure) + 1) % measures.length] ?? "none"),
  };
}

function TokenControl({ tokens, route }: { tokens: TokenState; route: Route }) {
  if (tokens.measures.length === 0) return null;
  return (
    <div class="token-control">
      <button type="button" class="quiet" aria-pressed={tokens.mode !== null} onClick={tokens.toggle} title="Tokens (t)">Tokens</button>
      {tokens.mode !== null && (
        <>
          <label>
            <span class="hidden">Colour of tokens</span>
            <select value={tokens.measure} onChange={(event) => replace({ ...route, query: withValue(route.query, "colour", event.currentTarget.value) })}>
              {tokens.measures.map((each) => <option key={each} value={each}>{MEASURE_LABELS[each]}</option>)}
            </select>
          </label>
          <TokenLegend measure={tokens.measure} scale={tokens.mode.scale} />
        </>
      )}
    </div>
  );
}

interface Neighbours {
  previous: string | null;
  next: string | null;
  list: string;
  place: string | null;
}

/** The trajectories before and after it in the list from which it was opened. */
function useNeighbours(route: Route, run: Run, id: number): Neighbours {
  const list = listOf(route.query);
  const at = Number(route.query.get("at") ?? -1);
  const query = new URLSearchParams(list);
  query.set("offset", String(Math.max(0, at - 1)));
  query.set("limit", "3");
  const { data } = useApi<Rows>(at >= 0 ? runPath(run.id, "trajectories", query) : null, run.revision);
  const position = data?.rows.findIndex((row) => row.id === id) ?? -1;
  const target = (by: number): string | null => {
    const row = position < 0 ? undefined : data?.rows[position + by];
    if (row === undefined) return null;
    const kept = withValue(withValue(list, "at", String(at + by)), "colour", route.query.get("colour"));
    return link("trajectory", run.id, kept, row.id);
  };
  return {
    previous: target(-1),
    next: target(1),
    list: link("trajectories", run.id, at >= 0 ? withValue(list, "at", String(at)) : list),
    place: position < 0 || data === undefined ? null : `${at + 1} of ${data.total}`,
  };
}

/** Track which turn is being read. */
function useTurnInSight(trajectory: Trajectory, seen: (turn: number) => void): void {
  const now = useRef(seen);
  now.current = seen;
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => {
        const entry = entries.find((each) => each.isIntersecting);
        if (entry !== undefined) now.current(Number(entry.target.id.slice("turn-".length)));
      },
      { rootMargin: "-30% 0px -60% 0px" },
    );
    for (const turn of trajectory.turns) {
      const element = document.getElementById(`turn-${turn.number}`);
      if (element !== null) observer.observe(element);
    }
    return () => observer.disconnect();
  }, [trajectory]);
}

function groupQuery(trajectory: Trajectory): URLSearchParams {
  return new URLSearchParams({ step: String(trajectory.step), split: trajectory.split });
}

function still(): boolean {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

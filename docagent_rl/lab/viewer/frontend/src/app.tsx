import { useCallback, useEffect, useState } from "preact/hooks";
import { exported, fresh, offered, offersAny } from "./api/client";
import { RUNS } from "./api/paths";
import type { Run, Runs } from "./api/types";
import { percent, plural } from "./logic/format";
import { filtersOf } from "./logic/filters";
import { link, type Route, type View } from "./logic/route";
import { Help } from "./ui/help";
import { useKeys } from "./ui/keys";
import { go, useRoute } from "./ui/location";
import { useTheme } from "./ui/theme";
import { Notice } from "./ui/basics";
import { Compare } from "./views/compare";
import { FunnelView } from "./views/funnel";
import { Glance } from "./views/glance";
import { GroupView } from "./views/group";
import { TrajectoryView } from "./views/trajectory";
import { Trajectories } from "./views/trajectories";

const POLL_MS = 3000;
/** While a run is being indexed, so that its progress is seen to move. */
const INDEXING_POLL_MS = 1000;
const VIEWS: [View, string, string][] = [
  ["glance", "Glance", "1"],
  ["trajectories", "Trajectories", "2"],
  ["funnel", "Funnel", "3"],
  ["compare", "Compare", "4"],
];

export function App() {
  const route = useRoute();
  const { runs, error } = useRuns();
  const [theme, nextTheme] = useTheme();
  const [help, setHelp] = useState(false);
  const closeHelp = useCallback(() => setHelp(false), []);
  const run = runs?.runs.find((each) => each.id === route.run) ?? runs?.runs[0];
  const views = VIEWS.filter(([view]) => shown(view, run, runs));
  const target = (view: View): string => link(view, run?.id ?? 0, keeps(view) ? filtersOf(route.query) : null);
  useKeys({
    "?": () => setHelp(true),
    d: nextTheme,
    "/": () => {
      const search = document.getElementById("search");
      if (search !== null) return search.focus();
      go(target("trajectories"));
      requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("search")?.focus()));
    },
    ...Object.fromEntries(views.map(([view, , key]) => [key, () => go(target(view))])),
  });
  useEffect(() => {
    document.title = `${TITLES[route.view]}${run ? ` · ${run.name}` : ""}`;
  }, [route.view, run?.name]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to content</a>
      <header class="top">
        <span class="brand">docagent-rl</span>
        {runs && run && route.view !== "compare" && <RunChoice runs={runs.runs} run={run} route={route} />}
        <nav aria-label="Views">
          {views.map(([view, title, key]) => (
            <a key={view} href={target(view)} title={`${title} (${key})`} aria-current={on(view, route.view) ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <span class="grow" />
        {run && route.view !== "compare" && <Indexing run={run} />}
        <button type="button" class="quiet" onClick={nextTheme} title="Theme: light, dark or automatic (d)">
          <span class="hidden">Theme: </span>{theme === "system" ? "Auto" : theme === "light" ? "Light" : "Dark"}
        </button>
        <button type="button" class="quiet" onClick={() => setHelp(true)} title="Keyboard shortcuts (?)" aria-label="Keyboard shortcuts">?</button>
      </header>
      <main id="main" tabIndex={-1} class={`view-${route.view}`}>
        {error !== null && <Notice bad>{error}</Notice>}
        {runs && run === undefined && <Notice>No run is open.</Notice>}
        {runs && run && <Page route={{ ...route, run: run.id }} run={run} runs={runs.runs} />}
      </main>
      <Help open={help} close={closeHelp} />
    </>
  );
}

const TITLES: Record<View, string> = {
  glance: "Glance",
  trajectories: "Trajectories",
  trajectory: "Trajectory",
  group: "Group",
  funnel: "Funnel",
  compare: "Compare",
};

function Page({ route, run, runs }: { route: Route; run: Run; runs: Run[] }) {
  switch (route.view) {
    case "trajectories":
      return <Trajectories key={run.id} route={route} run={run} />;
    case "trajectory":
      return <TrajectoryView route={route} run={run} />;
    case "group":
      return <GroupView route={route} run={run} />;
    case "funnel":
      return <FunnelView route={route} run={run} />;
    case "compare":
      return <Compare route={route} runs={runs} />;
    case "glance":
      return <Glance key={run.id} route={route} run={run} runs={runs} />;
  }
}

function RunChoice({ runs, run, route }: { runs: Run[]; run: Run; route: Route }) {
  if (runs.length === 1) return <span class="run-name">{run.name}</span>;
  const view: View = route.view === "trajectory" || route.view === "group" ? "trajectories" : route.view;
  return (
    <label class="run-choice">
      <span class="hidden">Run</span>
      <select value={String(run.id)} onChange={(event) => go(link(view, Number(event.currentTarget.value)))}>
        {runs.map((each) => (
          <option key={each.id} value={String(each.id)}>{each.name}</option>
        ))}
      </select>
    </label>
  );
}

function Indexing({ run }: { run: Run }) {
  const { indexing } = run;
  if (indexing === null) return (
    <span class="muted num">
      {run.failure && <b class="neg" title={run.failure}>the index cannot be updated · </b>}
      {!!run.damaged && <span title="lines of its files that are not valid trajectories; docagent-rl check lists them">{plural(run.damaged, "damaged line")} · </span>}
      {plural(run.trajectories, "trajectory")}
    </span>
  );
  return (
    <span class="muted num indexing" role="status">
      indexing <progress max={indexing.total} value={indexing.done} aria-label="Indexing progress" /> {percent(indexing.done, indexing.total)}
    </span>
  );
}

/** The runs, requested again while the page is visible: revisions increase with what a run writes. */
function useRuns(): { runs: Runs | null; error: string | null } {
  const [state, setState] = useState<{ runs: Runs | null; error: string | null }>({ runs: null, error: null });
  const indexing = state.runs?.runs.some((run) => run.indexing !== null) ?? false;
  useEffect(() => {
    const ask = (): void => {
      if (document.hidden) return;
      fresh<Runs>(RUNS).then(
        (runs) => setState((old) => (JSON.stringify(old.runs) === JSON.stringify(runs) ? { ...old, error: null } : { runs, error: null })),
        () => setState((old) => ({ ...old, error: "The server does not answer. Is docagent-rl view still running?" })),
      );
    };
    ask();
    if (exported) return;
    const timer = setInterval(ask, indexing ? INDEXING_POLL_MS : POLL_MS);
    document.addEventListener("visibilitychange", ask);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", ask);
    };
  }, [indexing]);
  return state;
}

function shown(view: View, run: Run | undefined, runs: Runs | null): boolean {
  const base = `/api/runs/${run?.id ?? 0}`;
  if (view === "glance") return offered(`${base}/metrics`);
  if (view === "funnel") return offered(`${base}/funnel`);
  if (view === "compare") return offersAny("/api/compare") && ((runs?.runs.length ?? 0) > 1 || [run?.steps.val, run?.steps.train].some((steps) => (steps?.length ?? 0) > 1));
  return offered(`${base}/trajectories`);
}

function keeps(view: View): boolean {
  return view === "trajectories" || view === "funnel";
}

function on(view: View, now: View): boolean {
  return view === now || (view === "trajectories" && (now === "trajectory" || now === "group"));
}

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { runPath } from "../api/paths";
import type { Facets, Row, Run } from "../api/types";
import { useApi } from "../api/use";
import { count, indexingText, plural } from "../logic/format";
import { filtersOf, listOf, orderOf, sortedBy, withValue } from "../logic/filters";
import { link, type Route } from "../logic/route";
import { blocksOf, scrollFor, windowOf } from "../logic/window";
import { columnsOf, fitting, leastWidth, RowCells } from "../parts/columns";
import { Chips, FacetPanel } from "../parts/facets";
import { Notice, Waiting } from "../ui/basics";
import { Field } from "../ui/field";
import { useWidth } from "../ui/hooks";
import { useKeys } from "../ui/keys";
import { go, replace } from "../ui/location";
import { BLOCK, useRows } from "../ui/rows";

const ROW = 44;
/** Most columns without room that are named below the list. */
const MOST_NAMED = 5;

/** The window's width from which on the filters are open at first. */
export const PANEL_PX = 900;

/** All trajectories of a run, filtered and sorted; only visible rows are drawn and requested. */
export function Trajectories({ route, run }: { route: Route; run: Run }) {
  const list = listOf(route.query).toString();
  const [panel, setPanel] = useState(() => window.innerWidth > PANEL_PX);
  const facets = useApi<Facets>(runPath(run.id, "facets", filtersOf(route.query)), run.revision);
  const [low, high] = facets.data?.ranges?.["reward"] ?? [0, 1];
  const scale = Math.max(Math.abs(low), Math.abs(high));
  const change = (query: URLSearchParams): void => {
    query.delete("at");
    replace({ ...route, query });
  };
  return (
    <div class={panel ? "trajectories with-panel" : "trajectories"}>
      {panel && <FacetPanel facets={facets.data} query={route.query} change={change} />}
      <div class="list">
        <Tools route={route} change={change} panel={panel} setPanel={setPanel} />
        <Table key={list} route={route} run={run} list={list} scale={scale} togglePanel={() => setPanel(!panel)} change={change} />
      </div>
    </div>
  );
}

function Tools({ route, change, panel, setPanel }: {
  route: Route;
  change: (query: URLSearchParams) => void;
  panel: boolean;
  setPanel: (open: boolean) => void;
}) {
  const text = route.query.get("q") ?? "";
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const type = (value: string): void => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => change(withValue(route.query, "q", value.trim())), 200);
  };
  return (
    <div class="tools">
      <button type="button" class="quiet" aria-pressed={panel} onClick={() => setPanel(!panel)} title="Filters (f)">Filters</button>
      <Field
        id="search"
        type="search"
        placeholder="Search questions, answers and turns"
        aria-label="Search questions, answers and turns"
        value={text}
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />
      <Chips query={route.query} change={change} />
    </div>
  );
}

function Table({ route, run, list, scale, togglePanel, change }: {
  route: Route;
  run: Run;
  list: string;
  /** The reward at which a bar is full. */
  scale: number;
  togglePanel: () => void;
  change: (query: URLSearchParams) => void;
}) {
  const scroll = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(800);
  const cursor = Number(route.query.get("at") ?? -1);
  const [seen, setSeen] = useState({ first: 0, last: BLOCK });
  const { total, row, error } = useRows(run, list, blocksOf(seen, BLOCK));
  const window = windowOf(top, height, ROW, total ?? 0);
  useEffect(() => {
    const timer = setTimeout(() => setSeen({ first: window.first, last: Math.max(window.last, 1) }), total === null ? 0 : 40);
    return () => clearTimeout(timer);
  }, [window.first, window.last, total === null]);
  useEffect(() => {
    const element = scroll.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const bring = (index: number): void => {
    const element = scroll.current;
    if (element === null) return;
    const head = 30;
    const to = scrollFor(index, element.scrollTop, element.clientHeight - head, ROW);
    if (to !== null) element.scrollTop = to;
  };
  useEffect(() => {
    if (cursor >= 0 && total !== null) bring(cursor);
  }, [total === null]);
  const move = (by: number): void => {
    if (total === null || total === 0) return;
    const next = Math.max(0, Math.min(total - 1, cursor < 0 ? 0 : cursor + by));
    replace({ ...route, query: withValue(route.query, "at", String(next)) });
    bring(next);
  };
  const open = (index: number): string | null => {
    const at = row(index);
    return at === undefined ? null : trajectoryLink(run, at, route, index);
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    f: togglePanel,
    Enter: () => {
      const target = open(Math.max(cursor, 0));
      if (target !== null) go(target);
    },
  });
  const all = useMemo(() => columnsOf(run), [run.terms.join(), run.systems.join(), run.kind]);
  const available = useWidth(scroll);
  const columns = fitting(all, available);
  const hidden = all.filter((column) => !columns.includes(column));
  const { key: sort, order: direction } = orderOf(route.query);
  const order = direction === "asc" ? "ascending" : "descending";
  if (error !== null) return <Waiting error={error} loading={false} />;
  return (
    <>
      <div class="table-scroll" ref={scroll} onScroll={(event) => setTop(event.currentTarget.scrollTop)} tabIndex={0} role="region" aria-label="Trajectories">
        <table class="rows" style={{ minWidth: `${leastWidth(columns, available)}px` }} aria-rowcount={total ?? -1}>
          <colgroup>{columns.map((column) => <col key={column.key} style={{ width: column.width }} />)}</colgroup>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.key} scope="col" class={column.number ? "num" : ""} aria-sort={sort === column.sort && column.sort ? order : undefined}>
                  {column.sort ? (
                    <button type="button" onClick={() => change(sortedBy(route.query, column.sort as string))} title={column.about}>
                      {column.title}
                      <span aria-hidden="true">{sort === column.sort ? (order === "ascending" ? " ↑" : " ↓") : ""}</span>
                    </button>
                  ) : (
                    <span title={column.about}>{column.title}</span>
                  )}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <tr class="spacer" aria-hidden="true"><td colSpan={columns.length} style={{ height: `${window.first * ROW}px` }} /></tr>
            {Array.from({ length: Math.max(0, window.last - window.first) }, (_, offset) => {
              const index = window.first + offset;
              const each = row(index);
              return (
                <tr
                  key={index}
                  aria-rowindex={index + 2}
                  aria-current={index === cursor ? "true" : undefined}
                  class={each === undefined ? "pending" : each.status}
                  onClick={(event) => each !== undefined && clicked(event, trajectoryLink(run, each, route, index))}
                >
                  {each === undefined ? <td colSpan={columns.length}>…</td> : <RowCells row={each} columns={columns} scale={scale} href={trajectoryLink(run, each, route, index)} />}
                </tr>
              );
            })}
            <tr class="spacer" aria-hidden="true"><td colSpan={columns.length} style={{ height: `${((total ?? 0) - window.last) * ROW}px` }} /></tr>
          </tbody>
        </table>
        {total === 0 && <Notice>{run.indexing === null ? "No trajectory matches." : indexingText(run)}</Notice>}
      </div>
      <p class="list-foot muted num" role="status">
        {total === null ? "…" : total === run.trajectories ? plural(total, "trajectory") : `${count(total)} of ${plural(run.trajectories, "trajectory")}`}
        {hidden.length > 0 && ` · in a wider window: ${hidden.length > MOST_NAMED ? `${hidden.length} more columns` : hidden.map(({ title }) => title.toLowerCase()).join(", ")}`}
      </p>
    </>
  );
}

function trajectoryLink(run: Run, row: Row, route: Route, index: number): string {
  return link("trajectory", run.id, withValue(listOf(route.query), "at", String(index)), row.id);
}

function clicked(event: MouseEvent, target: string): void {
  if (event.target instanceof Element && event.target.closest("a, button") !== null) return;
  if (window.getSelection()?.toString()) return;
  if (event.ctrlKey || event.metaKey) window.open(target, "_blank");
  else go(target);
}

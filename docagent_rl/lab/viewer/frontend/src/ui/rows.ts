import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import { runPath } from "../api/paths";
import type { Row, Rows, Run } from "../api/types";

/** Number of rows per request. */
export const BLOCK = 100;

/** Rows of a list by index, requested in blocks; blocks that are still loading have no rows. */
export function useRows(run: Run, list: string, offsets: readonly number[]) {
  const blocks = useRef(new Map<number, Row[]>());
  const [state, setState] = useState<{ total: number | null; error: string | null; turn: number }>({ total: null, error: null, turn: 0 });
  const wanted = offsets.join();
  useEffect(() => {
    const control = new AbortController();
    for (const offset of offsets.length > 0 ? offsets : [0]) {
      const query = new URLSearchParams(list);
      query.set("offset", String(offset));
      query.set("limit", String(BLOCK));
      get<Rows>(runPath(run.id, "trajectories", query), run.revision, control.signal).then(
        ({ total, rows }) => {
          if (control.signal.aborted) return;
          blocks.current.set(offset, rows);
          setState((old) => ({ total, error: null, turn: old.turn + 1 }));
        },
        (error: unknown) => {
          if (control.signal.aborted) return;
          setState((old) => ({ ...old, error: error instanceof Error ? error.message : String(error) }));
        },
      );
    }
    return () => control.abort();
  }, [run.id, run.revision, list, wanted]);
  const row = (index: number): Row | undefined => blocks.current.get(index - (index % BLOCK))?.[index % BLOCK];
  return { total: state.total, error: state.error, row };
}

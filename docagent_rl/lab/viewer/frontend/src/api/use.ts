import { useEffect, useState } from "preact/hooks";
import { get, known } from "./client";

export interface Answer<T> {
  /** The latest answer, or the previous one while the next is loading. */
  data: T | undefined;
  error: string | null;
  loading: boolean;
}

/** The answer at a path, requested again when path or revision change; null requests nothing. */
export function useApi<T>(path: string | null, revision: number): Answer<T> {
  const now = path === null ? undefined : known<T>(path, revision);
  const [state, setState] = useState<Answer<T> & { path: string | null }>({
    data: now,
    error: null,
    loading: false,
    path,
  });
  useEffect(() => {
    if (path === null) return;
    const control = new AbortController();
    const keep = <S,>(value: S): void => {
      if (!control.signal.aborted) setState(value as never);
    };
    setState((old) => ({ ...old, loading: true, path }));
    get<T>(path, revision, control.signal).then(
      (data) => keep({ data, error: null, loading: false, path }),
      (error: unknown) => keep({ data: undefined, error: reason(error), loading: false, path }),
    );
    return () => control.abort();
  }, [path, revision]);
  if (path === null) return { data: undefined, error: null, loading: false };
  if (now !== undefined) return { data: now, error: null, loading: false };
  return state;
}

function reason(error: unknown): string {
  if (error instanceof TypeError) return "The server does not answer. Is docagent-rl view still running?";
  return error instanceof Error ? error.message : String(error);
}

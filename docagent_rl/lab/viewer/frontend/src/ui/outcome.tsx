import type { OutcomeState } from "../api/types";
import { OUTCOMES } from "../logic/outcome";

/** A mark for the outcome of an answer; nothing if the system does not report it. */
export function OutcomeMark({ outcome }: { outcome: OutcomeState | null | undefined }) {
  if (outcome === null || outcome === undefined) return null;
  const { mark, tone, about } = OUTCOMES[outcome];
  return <span class={tone} role="img" aria-label={about} title={about}>{mark}</span>;
}

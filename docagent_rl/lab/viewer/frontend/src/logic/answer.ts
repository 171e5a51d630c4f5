/** The question, the right answers, and the agent's answer. */

import type { Trajectory } from "../api/types";

export function questionOf(trajectory: Pick<Trajectory, "sample">): string {
  const { question, question_id: id } = trajectory.sample;
  return typeof question === "string" && question !== "" ? question : String(id ?? "");
}

export function goldOf(trajectory: Pick<Trajectory, "sample">): string[] {
  const { answers } = trajectory.sample;
  return Array.isArray(answers) ? answers.map(String) : [];
}

/** The last answer: from an answering action, or from the role that answers; null if there is none. */
export function answerOf(trajectory: Pick<Trajectory, "turns"> & { answer?: string | null }): string | null {
  if (typeof trajectory.answer === "string") return trajectory.answer;
  for (let at = trajectory.turns.length - 1; at >= 0; at--) {
    const outcome = trajectory.turns[at]?.outcome;
    if (outcome?.answer) return outcome.extracted ?? outcome.answer;
    const action = trajectory.turns[at]?.action;
    if (action?.["kind"] === "answer" && typeof action["text"] === "string") return action["text"];
  }
  return null;
}

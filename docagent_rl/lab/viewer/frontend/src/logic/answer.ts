/** What was asked, what is right, and what the agent answered. */

import type { Session } from "../api/types";

export function questionOf(session: Pick<Session, "record">): string {
  const { question, question_id: id } = session.record;
  return typeof question === "string" && question !== "" ? question : String(id ?? "");
}

export function goldOf(session: Pick<Session, "record">): string[] {
  const { answers } = session.record;
  return Array.isArray(answers) ? answers.map(String) : [];
}

/** The last answer: of an answering action, or of the role that answers; null where there is none. */
export function answerOf(session: Pick<Session, "turns"> & { answer?: string | null }): string | null {
  if (typeof session.answer === "string") return session.answer;
  for (let at = session.turns.length - 1; at >= 0; at--) {
    const outcome = session.turns[at]?.outcome;
    if (outcome?.answer) return outcome.extracted ?? outcome.answer;
    const action = session.turns[at]?.action;
    if (action?.["kind"] === "answer" && typeof action["text"] === "string") return action["text"];
  }
  return null;
}

/** Repetitions in observations: systems that rebuild their prompt each turn show the same lines over and over. */

import type { Message } from "../api/types";

/** Fewer lines than this are not folded. */
const FEW = 6;

export interface Piece {
  text: string;
  /** Whether the model was shown these lines before. */
  again: boolean;
}

/** A text divided into the lines that it shares with the previous text at its beginning and end, and new ones. */
export function repeats(text: string, before: string | null): Piece[] {
  if (before === null || before === "") return [{ text, again: false }];
  const [now, old] = [text.split("\n"), before.split("\n")];
  const most = Math.min(now.length, old.length);
  let head = 0;
  while (head < most && now[head] === old[head]) head++;
  let tail = 0;
  while (tail < most - head && now[now.length - 1 - tail] === old[old.length - 1 - tail]) tail++;
  if (head < FEW) head = 0;
  if (tail < FEW) tail = 0;
  const pieces = [
    { text: now.slice(0, head).join("\n"), again: true },
    { text: now.slice(head, now.length - tail).join("\n"), again: false },
    { text: now.slice(now.length - tail).join("\n"), again: true },
  ];
  return pieces.filter((piece, at) => (at === 1 ? piece.text !== "" : piece.text !== "" && (at === 0 ? head : tail) > 0));
}

/** The longest text in messages, with which the next message's text is compared. */
export function longest(messages: readonly Message[]): string | null {
  let found: string | null = null;
  for (const message of messages) {
    for (const part of message.parts) if ("text" in part && part.text.length > (found?.length ?? 0)) found = part.text;
  }
  return found;
}

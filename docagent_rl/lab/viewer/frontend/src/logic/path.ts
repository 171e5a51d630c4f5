/** The agent's path through its documents: which pages it saw when and how, and which have the evidence. */

import type { Box, DocumentInfo, Message, PageId, Trajectory } from "../api/types";
import { isWhole, pageDocument, pageNumber } from "./boxes";

export interface PageMarks {
  page: number;
  gold: boolean;
  /** In the context as a separate image, or as text. */
  shown: boolean;
  /** In the context on a sheet of many pages. */
  overview: boolean;
  fetched: boolean;
  searched: boolean;
  /** Turns after which it entered the context, in order; 0 is the prompt. */
  turns: number[];
  /** Regions that the agent looked at, and regions with evidence. */
  crops: Box[];
  goldBoxes: Box[];
}

export interface DocumentPath {
  doc: string;
  pages: number;
  marks: Map<number, PageMarks>;
}

export function pathOf(trajectory: Pick<Trajectory, "document" | "prompt" | "turns">): DocumentPath[] {
  const documents = trajectory.document;
  const paths = documents.map((info) => marksOf(info, documents.length === 1));
  const visit = (messages: readonly Message[], turn: number): void => {
    for (const { page, box, sheet } of pagesIn(messages)) {
      const number = pageNumber(page);
      const path = paths.find((each) => each.doc === pageDocument(page)) ?? (paths.length === 1 ? paths[0] : undefined);
      if (number === null || path === undefined) continue;
      const marks = at(path, number);
      if (sheet) {
        marks.overview = true;
        continue;
      }
      marks.shown = true;
      if (!marks.turns.includes(turn)) marks.turns.push(turn);
      if (box !== null && !isWhole(box)) marks.crops.push(box);
    }
  };
  visit(trajectory.prompt, 0);
  for (const turn of trajectory.turns) if (!turn.dropped) visit(turn.observation, turn.number);
  for (const info of documents) {
    const path = paths.find((each) => each.doc === info.doc_id);
    for (const page of info.shown) {
      const number = pageNumber(page);
      if (path === undefined || number === null) continue;
      const marks = at(path, number);
      // a page that is on no sheet was shown as text
      if (!marks.overview) marks.shown = true;
    }
  }
  return paths;
}

/** Pages worth a thumbnail: all of a short document, otherwise those with a mark. */
export function pagesToShow(path: DocumentPath, most: number): number[] {
  if (path.pages <= most) return Array.from({ length: path.pages }, (_, at) => at + 1);
  const known = [...path.marks.values()].filter((marks) => marks.gold || marks.shown || marks.fetched || marks.searched);
  return known.map((marks) => marks.page).sort((a, b) => a - b);
}

function marksOf(info: DocumentInfo, alone: boolean): DocumentPath {
  const path: DocumentPath = { doc: info.doc_id, pages: info.pages, marks: new Map() };
  const mark = (pages: readonly PageId[], set: (marks: PageMarks) => void): void => {
    for (const page of pages) {
      const number = pageNumber(page);
      const document = pageDocument(page);
      if (number !== null && (alone || document === null || document === info.doc_id)) set(at(path, number));
    }
  };
  mark(info.gold, (marks) => (marks.gold = true));
  mark(info.fetched, (marks) => (marks.fetched = true));
  mark(info.searched, (marks) => (marks.searched = true));
  for (const [page, boxes] of Object.entries(info.boxes ?? {})) {
    mark([/^\d+$/.test(page) ? Number(page) : page], (marks) => marks.goldBoxes.push(...boxes));
  }
  return path;
}

function at(path: DocumentPath, page: number): PageMarks {
  let marks = path.marks.get(page);
  if (marks === undefined) {
    marks = { page, gold: false, shown: false, overview: false, fetched: false, searched: false, turns: [], crops: [], goldBoxes: [] };
    path.marks.set(page, marks);
  }
  return marks;
}

function* pagesIn(messages: readonly Message[]): Generator<{ page: PageId | null; box: Box | null; sheet: boolean }> {
  for (const message of messages) {
    for (const part of message.parts) {
      if (!("image" in part)) continue;
      const tiles = part.tiles ?? [];
      const sheet = new Set(tiles.map((tile) => tile.page)).size > 1;
      for (const tile of tiles) yield { page: tile.page, box: tile.box, sheet };
      if (tiles.length === 0) yield { page: part.page, box: part.box, sheet: false };
    }
  }
}

import { expect, test } from "vitest";
import type { Run } from "../src/api/types";
import { columnsOf, fitting, leastWidth } from "../src/parts/columns";

const RUN: Run = {
  id: 0, name: "run", kind: "training", systems: ["vrag_rl"], steps: {}, trajectories: 1, terms: ["format", "outcome", "retrieval_ndcg"], revision: 0, indexing: null,
};
const titles = (width: number): string[] => fitting(columnsOf(RUN), width).map(({ title }) => title);

test("columns that have no room are left out, not cut", () => {
  for (const width of [390, 768, 1062, 1280, 1600]) {
    const columns = fitting(columnsOf(RUN), width);
    expect(leastWidth(columns, width)).toBeLessThanOrEqual(width);
  }
  expect(titles(390)).toEqual(["Reward", "Question", "Answer"]);
  expect(titles(1062)).toEqual(expect.arrayContaining(["Step", "Turns", "Invalid", "Ended by", "format"]));
  expect(titles(1600)).toEqual(columnsOf(RUN).map(({ title }) => title));
});

import { expect, test } from "vitest";
import type { Row } from "../src/api/types";
import { filtersOf, formatRange, listOf, orderOf, parseRange, sortedBy, toggled } from "../src/logic/filters";
import { answerRows, countFacets, matches } from "../src/logic/offline";

const query = (text: string): URLSearchParams => new URLSearchParams(text);

function row(values: Partial<Row>): Row {
  return {
    id: 1, step: 1, split: "train", system: "alden", dataset: "d", question_id: "q", question: "How many?", doc_id: "doc",
    uid: "u", number: 0, status: "finished", end: "answered", reward: 0, terms: {}, turns: 1, invalid: 0, tokens: 10, images: 0,
    answer: null, gold: [], evidence_kind: "Table", stage: null, seconds: 1, ...values,
  };
}

const ROWS = [
  row({ id: 1, outcome: "unjudged", reward: -0.5, turns: 3, terms: { format: 1 }, answer: "Four" }),
  row({ id: 2, reward: 2, split: "val", step: 4, terms: { format: 0 }, outcome: "right", guessed: true }),
  row({ id: 3, reward: null, status: "masked", end: "infrastructure", step: 9, evidence_kind: "Chart" }),
];

test("ranges are read with colons and dashes, bounds may be negative or missing", () => {
  expect(parseRange("-1:0.5")).toEqual([-1, 0.5]);
  expect(parseRange(":2")).toEqual([null, 2]);
  expect(parseRange("3-7")).toEqual([3, 7]);
  expect(parseRange("-3")).toEqual([-3, -3]);
  expect(parseRange("")).toEqual([null, null]);
  expect(formatRange(-1, null)).toBe("-1:");
  expect(parseRange(formatRange(0, 5))).toEqual([0, 5]);
  expect(formatRange(null, null)).toBeNull();
});

test("values are put on and taken off without touching others", () => {
  const on = toggled(query("step=1&q=x"), "step", "2");
  expect(on.getAll("step")).toEqual(["1", "2"]);
  expect(toggled(on, "step", "1").toString()).toBe("q=x&step=2");
});

test("what views keep in the address is no filter", () => {
  const all = query("step=1&term:format=0:1&sort=reward&order=desc&at=4&turn=2&colour=kl&guessed=1");
  expect([...filtersOf(all).keys()]).toEqual(["step", "term:format", "guessed"]);
  expect([...listOf(all).keys()]).toEqual(["step", "term:format", "sort", "order", "guessed"]);
});

test("a column sorts down, up, and then no more", () => {
  const down = sortedBy(query("step=1"), "reward");
  expect(down.toString()).toBe("step=1&sort=reward&order=desc");
  const up = sortedBy(down, "reward");
  expect(up.get("order")).toBe("asc");
  expect(sortedBy(up, "reward").toString()).toBe("step=1");
});

test("the newest step comes first, so a click on its column reverses that", () => {
  expect(orderOf(query(""))).toEqual({ key: "step", order: "desc" });
  const up = sortedBy(query(""), "step");
  expect(up.toString()).toBe("sort=step&order=asc");
  expect(sortedBy(up, "step").toString()).toBe("");
});

test("a file's rows are filtered as the server would", () => {
  const ids = (text: string): number[] => ROWS.filter((each) => matches(each, query(text))).map((each) => each.id);
  expect(ids("split=train&split=val")).toEqual([1, 2, 3]);
  expect(ids("split=train&reward=:0")).toEqual([1]);
  expect(ids("step=2-5")).toEqual([2]);
  expect(ids("term:format=0.5:")).toEqual([1]);
  expect(ids("mask=infrastructure")).toEqual([3]);
  expect(ids("guessed=1")).toEqual([2]);
  expect(ids("outcome=unjudged")).toEqual([1]);
  expect(ids("outcome=right&outcome=")).toEqual([2, 3]);
  expect(ids("ids=1,3")).toEqual([1, 3]);
  expect(ids("q=FOUR many")).toEqual([1]);
});

test("a file's rows are sorted and cut, facets counted", () => {
  const found = answerRows(ROWS, query("sort=reward&order=desc&offset=0&limit=2"));
  expect(found.total).toBe(3);
  expect(found.rows.map((each) => each.id)).toEqual([2, 1]);
  expect(answerRows(ROWS, query("sort=reward&order=asc")).rows.map((each) => each.id)).toEqual([1, 2, 3]);
  const facets = countFacets(ROWS, query("split=train"));
  expect(facets["kind"]).toEqual([{ value: "Table", count: 1 }, { value: "Chart", count: 1 }]);
  expect(facets["outcome"]).toEqual([{ value: "unjudged", count: 1 }]);
  expect(facets["mask"]).toEqual([{ value: "infrastructure", count: 1 }]);
  expect(facets.ranges?.["reward"]).toEqual([-0.5, -0.5]);
  expect(facets.ranges?.["term:format"]).toEqual([1, 1]);
});

import { describe, expect, test } from "vitest";
import type { Box, Message, Trajectory, Tokens, Turn } from "../src/api/types";
import { actionText, partingTurn } from "../src/logic/actions";
import { answerOf } from "../src/logic/answer";
import { intoCrop, isWhole, ontoSheet, pageDocument, pageNumber } from "../src/logic/boxes";
import { measuresOf, scaleOf, shade, valuesOf } from "../src/logic/colouring";
import { pagesToShow, pathOf } from "../src/logic/path";
import { repeats } from "../src/logic/repeats";
import { segments } from "../src/logic/spans";
import { stripOf } from "../src/logic/strip";
import { termRows } from "../src/logic/terms";

function turn(values: Partial<Turn>): Turn {
  return {
    number: 1, text: "", row: 0, stop: "end_of_turn", reward: 0, terms: {}, action: null, valid: true, reason: null, detail: null,
    spans: [], hits: [], searches: [], seconds: {}, observation: [], observation_tokens: 0, dropped: false,
    strip: { text: 0, visual: 0, sampled: 0 }, ...values,
  };
}

function tokens(values: Partial<Tokens>): Tokens {
  return {
    ids: [5, 6], texts: ["a", "b"], log_probs: [-1, -2], trainer_log_probs: null, advantages: null, returns: null, values: null,
    entropy: null, kl: null, ...values,
  };
}

function shows(page: string, box: Box | null = null): Message[] {
  return [{ role: "user", parts: [{ image: 0, page, box, size: [10, 10], tiles: null }] }];
}

describe("spans", () => {
  test("nested and touching spans cut the text without losing any of it", () => {
    const pieces = segments("ab[cd]ef", [{ kind: "action", begin: 2, end: 6 }, { kind: "argument", begin: 3, end: 5 }]);
    expect(pieces.map((piece) => [piece.text, piece.kinds.join("+")])).toEqual([
      ["ab", ""], ["[", "action"], ["cd", "action+argument"], ["]", "action"], ["ef", ""],
    ]);
  });

  test("places count code points, not halves of a pair", () => {
    expect(segments("😀😀x", [{ kind: "thought", begin: 1, end: 2 }]).map((piece) => piece.text)).toEqual(["😀", "😀", "x"]);
  });

  test("a span that leaves the text is clipped, an empty one is nothing", () => {
    const pieces = segments("abc", [{ kind: "action", begin: 2, end: 99 }, { kind: "note", begin: -4, end: 0 }]);
    expect(pieces).toEqual([{ text: "ab", kinds: [] }, { text: "c", kinds: ["action"] }]);
  });
});

describe("boxes", () => {
  test("a box of the page is mapped into a crop and clipped there", () => {
    expect(intoCrop([0.25, 0.25, 0.75, 0.75], [0, 0, 0.5, 0.5])).toEqual([0.5, 0.5, 1, 1]);
    expect(intoCrop([0.6, 0.6, 0.7, 0.7], [0, 0, 0.5, 0.5])).toBeNull();
    expect(intoCrop([0, 0, 1, 1], [0.5, 0.5, 0.5, 0.6])).toBeNull();
  });

  test("and onto its place on a sheet", () => {
    expect(ontoSheet([0, 0.5, 1, 1], [0.5, 0, 0.5, 0.25])).toEqual([0.5, 0.125, 1, 0.25]);
  });

  test("pages have numbers and documents, also where the name holds the mark", () => {
    expect(pageNumber("a#b#12")).toBe(12);
    expect(pageDocument("a#b#12")).toBe("a#b");
    expect(pageNumber(3)).toBe(3);
    expect(pageDocument(3)).toBeNull();
    expect(pageNumber("nothing")).toBeNull();
    expect(isWhole([0, 0, 0.9999, 1])).toBe(true);
    expect(isWhole([0, 0, 0.9, 1])).toBe(false);
  });
});

describe("the way through a document", () => {
  const document = { doc_id: "d", pages: 40, gold: [7], fetched: [2], searched: [2, 9], shown: [2, 3, 4], boxes: { "7": [[0, 0, 1, 0.5] as Box] } };
  const overview: Message[] = [{ role: "user", parts: [{ image: 0, page: null, box: null, size: null, tiles: [3, 4, 7].map((page) => ({ page: `d#${page}`, box: null, at: [0, 0, 1, 1] as [number, number, number, number] })) }] }];
  const [path] = pathOf({ document: [document], prompt: overview, turns: [turn({ observation: shows("d#2") }), turn({ number: 2, observation: shows("d#4", [0, 0, 0.5, 0.5]) }), turn({ number: 3, observation: shows("d#9"), dropped: true })] });

  test("a page on a sheet of many is not one that was seen", () => {
    expect(path?.marks.get(3)).toMatchObject({ overview: true, shown: false });
    expect(path?.marks.get(4)).toMatchObject({ overview: true, shown: true, turns: [2], crops: [[0, 0, 0.5, 0.5]] });
    expect(path?.marks.get(2)).toMatchObject({ shown: true, fetched: true, searched: true, turns: [1] });
  });

  test("a dropped observation shows nothing", () => {
    expect(path?.marks.get(9)).toMatchObject({ shown: false, searched: true, turns: [] });
  });

  test("of a long document only pages that matter have thumbnails", () => {
    expect(path && pagesToShow(path, 24)).toEqual([2, 4, 7, 9]);
    expect(path && pagesToShow(path, Infinity)).toHaveLength(40);
    expect(path?.marks.get(7)?.goldBoxes).toEqual([[0, 0, 1, 0.5]]);
  });
});

describe("tokens", () => {
  test("only measures that are stored can be chosen", () => {
    expect(measuresOf([tokens({})])).toEqual(["none"]);
    expect(measuresOf([tokens({}), tokens({ trainer_log_probs: [-1, -1.5], kl: [0, 0] })])).toEqual(["drift", "kl", "none"]);
  });

  test("drift is the trainer's less the server's", () => {
    expect(valuesOf(tokens({ trainer_log_probs: [-1, -1.5] }), "drift")).toEqual([0, 0.5]);
  });

  test("shades reach both ends, an outlier does not fade the rest, zero has none", () => {
    const many = tokens({ ids: [], advantages: [...Array.from({ length: 99 }, () => 1), 1000] });
    expect(scaleOf([many], "advantage")).toBe(1);
    expect([shade(1, 1), shade(-1, 1), shade(50, 1), shade(0.4, 1), shade(0.01, 1), shade(0, 1), shade(null, 1), shade(1, 0)]).toEqual(["p5", "n5", "p5", "p2", "", "", "", ""]);
  });
});

test("the strip has every token once, in order", () => {
  const strip = stripOf({ prompt_tokens: 10, turns: [turn({ strip: { sampled: 3, visual: 5, text: 0 } }), turn({ number: 2, strip: { sampled: 2, visual: 0, text: 0 } })] });
  expect(strip.total).toBe(20);
  expect(strip.pieces.map((piece) => [piece.kind, piece.turn, piece.begin, piece.tokens])).toEqual([["prompt", null, 0, 10], ["sampled", 1, 10, 3], ["visual", 1, 13, 5], ["sampled", 2, 18, 2]]);
});

test("images of a prompt are visual tokens too", () => {
  const strip = stripOf({ prompt_tokens: 10, prompt_strip: { text: 4, visual: 6 }, turns: [] });
  expect(strip.pieces.map((piece) => [piece.kind, piece.tokens])).toEqual([["prompt", 4], ["visual", 6]]);
  expect(strip.total).toBe(10);
});

test("terms have the environment's sums, and what turns were paid", () => {
  const trajectory = { metrics: { "reward/fetch": 1.5, "reward/fetch/max": 9, "reward/total": 2, turns: 2 }, reward: 2, turns: [turn({ reward: 1, terms: { fetch: 1, total: 1 } }), turn({ reward: 1, terms: { answer: 1 } })] } as unknown as Trajectory;
  expect(termRows(trajectory)).toEqual([{ name: "fetch", value: 1.5, turns: [1, 0] }, { name: "answer", value: 1, turns: [0, 1] }, { name: "total", value: 2, turns: [1, 1] }]);
});

test("actions are told in few words", () => {
  expect(actionText(turn({ action: { kind: "search", query: "net revenue", block: [0, 4] } }))).toBe("search “net revenue”");
  expect(actionText(turn({ action: { kind: "crop", boxes: [[1.23456, 2, 3, 4]] } }))).toBe("crop 1.235 2 3 4");
  expect(actionText(turn({ valid: false, reason: "bad_argument", action: { kind: "invalid" } }))).toBe("invalid: bad argument");
});

test("trajectories part where their actions first differ or one has ended", () => {
  const search = turn({ action: { kind: "search", query: "a" } });
  const other = turn({ action: { kind: "search", query: "b" } });
  expect(partingTurn([[search, other], [search, search]])).toBe(1);
  expect(partingTurn([[search], [search, search]])).toBe(1);
  expect(partingTurn([[search], [search]])).toBeNull();
});

test("the answer is the last answering action's", () => {
  expect(answerOf({ turns: [turn({ action: { kind: "answer", text: "1" } }), turn({ action: { kind: "answer", text: "2" } })] })).toBe("2");
  expect(answerOf({ turns: [turn({ action: { kind: "search", text: "1" } })] })).toBeNull();
  expect(answerOf({ turns: [turn({ action: { kind: "finish" }, outcome: { answer: "Page 2 says 7", extracted: "7" } })] })).toBe("7");
});

test("lines that were shown before are set apart, few of them are not", () => {
  const rules = Array.from({ length: 8 }, (_, at) => `rule ${at}`).join("\n");
  expect(repeats(`${rules}\nnew`, `${rules}\nold`)).toEqual([{ text: rules, again: true }, { text: "new", again: false }]);
  expect(repeats("a\nb", "a\nc")).toEqual([{ text: "a\nb", again: false }]);
  expect(repeats(rules, rules)).toEqual([{ text: rules, again: true }]);
});

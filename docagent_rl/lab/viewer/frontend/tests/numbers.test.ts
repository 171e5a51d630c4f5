import { describe, expect, test } from "vitest";
import type { Comparison, FunnelGroup } from "../src/api/types";
import { cut, extent, pointsOf, smoothed, spread, tickText, ticks } from "../src/logic/chart";
import { plotsOf } from "../src/logic/curves";
import { MOST_LINES, curvesOf } from "../src/logic/lines";
import { count, indexingText, number, percent, plural, seconds, signed, steps } from "../src/logic/format";
import { funnelFigure } from "../src/logic/figure";
import { byStage, cause, losses, rightAnyway, worst } from "../src/logic/funnel";
import { OUTCOMES, accuracyText, branchText, leftOutText } from "../src/logic/outcome";
import { chance, comparable, verdict } from "../src/logic/verdict";
import { blocksOf, scrollFor, windowOf } from "../src/logic/window";

describe("format", () => {
  test("numbers are short and keep their sign", () => {
    expect([number(0), number(0.12345), number(-12.345), number(1234567), number(2.5e-7), number(-2.5e-7), number(null)]).toEqual(["0", "0.123", "−12.35", "1 234 567", "2.5e−7", "−2.5e−7", "–"]);
    expect([signed(0.5), signed(-0.5), signed(0)]).toEqual(["+0.50", "−0.50", "0.00"]);
    expect(count(9999999)).toBe("9 999 999");
  });

  test("shares do not round to all or nothing", () => {
    expect([percent(1, 1000), percent(999, 1000), percent(5, 5), percent(0, 5), percent(0, 0)]).toEqual(["<1 %", ">99 %", "100 %", "0 %", "–"]);
  });

  test("nouns have their plural", () => {
    expect([plural(1, "trajectory"), plural(2, "trajectory"), plural(0, "token")]).toEqual(["1 trajectory", "2 trajectories", "0 tokens"]);
  });

  test("times and steps", () => {
    expect([seconds(0.00002), seconds(0.0034), seconds(1.234), seconds(300)]).toEqual(["20 µs", "3.4 ms", "1.23 s", "5.0 min"]);
    expect([steps([3]), steps([3, 7]), steps([]), steps(null)]).toEqual(["step 3", "steps 3–7", "", ""]);
  });
});

describe("chart", () => {
  test("ticks are round, inside the range, and told apart", () => {
    expect(ticks(0, 1, 3)).toEqual([0, 0.5, 1]);
    expect(ticks(0.287, 0.299, 3)).toEqual([0.29, 0.295]);
    expect(ticks(0.287, 0.299, 3).map((tick, _, all) => tickText(tick, all))).toEqual(["0.290", "0.295"]);
    expect(ticks(5, 5, 3)).toEqual([5]);
  });

  test("an axis is never empty and holds zero where it is near", () => {
    expect(extent([1, 3])).toEqual([0, 3]);
    expect(extent([9, 10])).toEqual([9, 10]);
    expect(extent([0, 0])).toEqual([0, 1]);
    expect(extent([])).toEqual([0, 1]);
    const [low, high] = extent([5, 5]);
    expect(low).toBeLessThan(5);
    expect(high).toBeGreaterThan(5);
  });

  test("gaps are no zeros, and smoothing begins at the first value", () => {
    expect(pointsOf([1, 2, 3], [1, null, Number.NaN])).toEqual([[1, 1]]);
    expect(smoothed([[1, 4], [2, 4], [3, 0]], 0.5)[0]).toEqual([1, 4]);
    expect(smoothed([[1, 4], [2, 4]], 0.5)[1]).toEqual([2, 4]);
  });

  test("labels of lines that end in one place stand apart, inside the chart", () => {
    expect(spread([50, 50, 10], 12, 0, 100)).toEqual([50, 62, 10]);
    expect(spread([99, 98, 97], 12, 0, 100)).toEqual([100, 88, 76]);
    expect([cut("retrieval", 20), cut("retrieval ndcg", 8)]).toEqual(["retrieval", "retriev…"]);
  });

  test("no chart has more lines than are told apart, and every number is in one", () => {
    const stages = ["sought", "reach", "found", "shown", "looked", "answered", "kept", "right", "guessed", "zoomed", "read_whole", "as_text", "unjudged"];
    const seconds = ["step", "gen", "update_actor", "update_critic", "old_log_prob", "ref", "values"].map((name) => `timing_s/${name}`);
    const of = (names: string[]) => ({ steps: [1, 2], values: Object.fromEntries(names.map((name) => [name, [0.1, 0.2]])) });
    const train = [...stages.map((name) => `docagent/funnel/${name}`), ...seconds];
    const val = stages.map((name) => `val-aux/docagent/funnel/${name}`);
    const metrics = { names: [...train, ...val], train: of(train), val: of(val) };
    const charts = [...plotsOf(metrics.names).values()].flat().flatMap((plot) => curvesOf(plot, metrics, null, false));
    for (const { lines } of charts) {
      expect(lines.length).toBeLessThanOrEqual(MOST_LINES);
      expect(new Set(lines.map(({ hue }) => hue)).size).toBe(lines.length);
      expect(new Set(lines.map(({ label }) => label)).size).toBe(lines.length);
    }
    const funnel = charts.filter(({ title }) => title.startsWith("Funnel"));
    expect(funnel.map(({ title, lines }) => [title.split(", ")[1], lines.map(({ label }) => label)])).toEqual(["training", "validation"].map((split) => [split, ["looked for", "found", "shown", "looked at", "answered right"]]));
    expect(charts.filter(({ title }) => title.startsWith("Seconds")).map(({ lines }) => lines.length)).toEqual([4, 3]);
  });

  test("a line of another run has the hue of its own one", () => {
    const metrics = (value: number) => ({ names: ["a", "b"], train: { steps: [1], values: { a: [value], b: [value] } }, val: { steps: [], values: {} } });
    const plot = { title: "P", series: [{ name: "a", label: "A" }, { name: "b", label: "B" }] };
    const [chart] = curvesOf(plot, metrics(1), { name: "other", metrics: metrics(2) }, false);
    expect(chart?.lines.map(({ label, hue, beside }) => [label, hue, beside ?? false])).toEqual([["A", 0, false], ["B", 1, false], ["A · other", 0, true], ["B · other", 1, true]]);
  });

  test("known numbers are put together, limits of terms are not terms", () => {
    const groups = plotsOf(["docagent/reward/total", "docagent/reward/format", "docagent/reward/format/max", "docagent/outcome/unjudged", "actor/entropy", "odd/one"]);
    const plots = [...groups.values()].flat();
    expect(plots.map((plot) => plot.title)).toEqual(["Reward", "Terms", "Outcome", "Entropy"]);
    expect(plots[1]?.series).toEqual([{ name: "docagent/reward/format", label: "format" }]);
  });
});

describe("funnel", () => {
  const funnel: FunnelGroup = {
    key: "", trajectories: 10, counts: { all: 10, sought: 10, reach: null, found: 5, shown: 2, looked: 2, answered: 2, kept: 2, right: 2 },
    with_evidence: 1, lost_counts: { found: 4, shown: 3 }, right_anyway: { found: 1 }, unjudged_at: {}, filters: {}, unjudged: 0, played: 10, outcomes: { right: 2, wrong: 8, unjudged: 0 }, guessed: 1, branches: {},
  };

  test("a stage that nobody knows is no loss, and what is right is none", () => {
    expect(losses(funnel).slice(1, 5).map((step) => [step.trajectories, step.lost, step.anyway])).toEqual([[10, 0, 0], [null, 0, 0], [5, 4, 1], [2, 3, 0]]);
    expect(worst(funnel)?.stage.id).toBe("found");
    const right = (unjudged: number): number | null | undefined => losses({ ...funnel, unjudged }).at(-1)?.trajectories;
    expect([right(0), right(8), right(10)]).toEqual([1, 1, null]);
    expect(rightAnyway(funnel)).toBe(1);
    expect(cause("found")).toContain("retrieval");
  });

  test("the figure has a bar as long as its share, what was lost behind it, and texts that stay text", () => {
    const svg = funnelFigure(funnel, "<script>a & b");
    expect(svg).toContain("&#60;script&#62;a &#38; b");
    expect(svg).not.toContain("<script>");
    expect(svg).toContain('width="380.0" height="18" fill="#3356c8"');
    expect(svg).toContain('x="300.0" y="129" width="190.0" height="18" fill="#e3b4af"');
    expect(svg.match(/unknown/g)).toHaveLength(1);
  });

  test("unjudged answers have a row of their own, and none where there are none", () => {
    const svg = funnelFigure({ ...funnel, unjudged: 5 }, "");
    expect(svg).toContain('x="110.0" y="339" width="190.0" height="18" fill="#9aa3b5"');
    expect(svg).toContain(">unjudged</text>");
    expect(svg).toContain('height="374" viewBox');
    expect(svg).toContain(">right anyway</text>");
    expect(funnelFigure(funnel, "")).not.toContain("unjudged");
  });

  test("accuracy is of the judged answers, and the others are told", () => {
    expect(accuracyText(funnel)).toBe("Right in 2 of 10 trajectories (20 %), 1 of them without the evidence.");
    expect(accuracyText({ ...funnel, guessed: 0, unjudged: 6 })).toBe("Right in 2 of 4 judged trajectories (50 %). 6 more were not judged.");
    const none = { ...funnel, counts: { ...funnel.counts, right: 0 }, unjudged: 10 };
    expect(accuracyText(none)).toBe("None of 10 answers was judged, so it is unknown which are right.");
    expect(accuracyText({ ...none, counts: { ...funnel.counts, right: null }, unjudged: 0 })).toBe("It is unknown which answers are right.");
    const more = { ...funnel, guessed: 0, played: 14, outcomes: { right: 3, wrong: 9, unjudged: 2 } };
    expect(accuracyText(more)).toMatch(/Including trajectories whose evidence is unknown: right in 3 of 12 \(25 %\)\.$/);
  });

  test("stages stand in their order", () => {
    expect(byStage([{ value: "shown" }, { value: "zzz" }, { value: "all" }, { value: "found" }]).map((each) => each.value)).toEqual(["all", "found", "shown", "zzz"]);
  });
});

describe("indexing", () => {
  test("it is said how far a run is read, until all of it is", () => {
    expect(indexingText({ indexing: { done: 43, total: 100 }, trajectories: 12 })).toBe("Indexing: 43 % read, 12 trajectories so far.");
    expect(indexingText({ indexing: null, trajectories: 12 })).toBe("");
  });
});

describe("outcome", () => {
  test("a way of reading tells the right answers of the judged ones", () => {
    const says = (right: number, unjudged: number): string => branchText({ trajectories: 4, right, unjudged });
    expect([says(3, 0), says(1, 2), says(0, 4)]).toEqual([", right 3", ", right 1, unjudged 2", ", unjudged 4"]);
  });

  test("an unjudged answer is neither right nor wrong", () => {
    const { right, wrong, unjudged } = OUTCOMES;
    expect([right.mark, wrong.mark, unjudged.mark]).toEqual(["✓", "✗", "?"]);
    expect([right.tone, wrong.tone, unjudged.tone]).toEqual(["pos", "neg", "muted"]);
    expect(unjudged.about).not.toMatch(/wrong/);
  });
});

describe("long lists", () => {
  test("rows in sight and their blocks", () => {
    expect(windowOf(0, 330, 33, 10_000, 2)).toEqual({ first: 0, last: 12 });
    expect(windowOf(33_000, 330, 33, 1005, 0)).toEqual({ first: 1000, last: 1005 });
    expect(windowOf(0, 330, 33, 0)).toEqual({ first: 0, last: 0 });
    expect(blocksOf({ first: 95, last: 205 }, 100)).toEqual([0, 100, 200]);
    expect(blocksOf({ first: 0, last: 0 }, 100)).toEqual([]);
  });

  test("a row is brought into sight by the least scrolling", () => {
    expect(scrollFor(0, 100, 330, 33)).toBe(0);
    expect(scrollFor(20, 0, 330, 33)).toBe(363);
    expect(scrollFor(5, 0, 330, 33)).toBeNull();
  });
});

describe("verdict", () => {
  const data = { pairs: 8, documents: 8, difference: 0.5, p: 0.01, fewest_documents: 6, same_trajectories: false, same_reward: true } as Comparison;
  const says = (values: Partial<Comparison>): string => verdict({ ...data, ...values }, "A", "B");

  test("a side is higher where that is no chance, and nobody is better between two rewards", () => {
    expect(says({})).toMatch(/B is higher by 0\.500/);
    expect(says({ difference: -0.5 })).toMatch(/A is higher/);
    expect(says({ p: 0.2 })).toMatch(/may be due to chance/);
    expect(says({ p: null, documents: 1 })).toMatch(/1 document, no difference .* 6 documents/);
    for (const values of [{ same_reward: false }, { same_trajectories: true }]) {
      expect(says(values)).toMatch(/neither run is better/);
      expect(comparable({ ...data, ...values })).toBe(false);
    }
  });

  test("answers that nobody judged are said to be left out", () => {
    expect(leftOutText(0, 0)).toBe("");
    expect(leftOutText(1, 3)).toBe("Left out because they were not judged: 1 answer of A, 3 answers of B.");
  });

  test("no p-value is zero", () => {
    expect([chance(0.0004), chance(0.03125), chance(1)]).toEqual(["< 0.001", "0.031", "1.000"]);
  });
});

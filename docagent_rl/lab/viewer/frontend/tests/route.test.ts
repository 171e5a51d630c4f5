import { describe, expect, test } from "vitest";
import { formatRoute, link, parseRoute } from "../src/logic/route";

describe("route", () => {
  test("an empty hash is the glance of the first run", () => {
    expect(parseRoute("")).toMatchObject({ view: "glance", run: 0, id: null });
    expect(parseRoute("#/nonsense?r=x")).toMatchObject({ view: "glance", run: 0 });
  });

  test("a trajectory's address survives a round trip, with a uid that holds what addresses use", () => {
    const hash = link("group", 3, new URLSearchParams({ step: "2" }), "a/b ?#é");
    expect(parseRoute(hash)).toMatchObject({ view: "group", run: 3, id: "a/b ?#é" });
    expect(parseRoute(hash).query.get("step")).toBe("2");
    expect(formatRoute(parseRoute(hash))).toBe(hash);
  });

  test("the run of a list stands in the query and is no filter of it", () => {
    const route = parseRoute("#/trajectories?r=2&split=val&step=1&step=2");
    expect(route.run).toBe(2);
    expect(route.query.has("r")).toBe(false);
    expect(route.query.getAll("step")).toEqual(["1", "2"]);
    expect(formatRoute(route)).toBe("#/trajectories?split=val&step=1&step=2&r=2");
  });

  test("a trajectory without a number is the list, a broken escape is kept as text", () => {
    expect(parseRoute("#/trajectory/1").view).toBe("trajectories");
    expect(parseRoute("#/group/0/%E0%A4%A").id).toBe("%E0%A4%A");
  });
});

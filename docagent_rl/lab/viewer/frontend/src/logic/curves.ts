/** Which of a run's hundreds of numbers are plotted first, and which share a plot. */

import { BRANCHES, MAIN_STAGES } from "./funnel";

export interface Plot {
  title: string;
  /** Names of the numbers, and their labels in the plot. */
  series: { name: string; label: string }[];
  unit?: string;
}

interface Spec {
  title: string;
  group: string;
  unit?: string;
  /** Exact names with labels, or a pattern whose first group is the label. */
  of: (string | [string, string] | RegExp | Named)[];
}

/** Names that match a pattern, under one label: the same number in training and validation. */
interface Named {
  pattern: RegExp;
  label: string;
}

function named(pattern: string, label: string): Named {
  return { pattern: new RegExp(pattern), label };
}

const SPECS: readonly Spec[] = [
  { group: "Reward and evidence", title: "Reward", of: [["docagent/reward/total", "total"], ["critic/score/min", "lowest row"], ["critic/score/max", "highest row"]] },
  { group: "Reward and evidence", title: "Terms", of: [/^(?:docagent|val-aux\/docagent)\/reward\/(?!total)([^/]+)$/] },
  { group: "Reward and evidence", title: "Validation", of: [/^val-core\/(.+)$/, /^val-aux\/docagent\/(reward_played)$/] },
  { group: "Reward and evidence", title: "Outcome", of: [/^(?:val-aux\/)?docagent\/outcome\/([^/]+)$/] },
  { group: "Reward and evidence", title: "Funnel: share that reached a stage", of: MAIN_STAGES.map(({ id, label }) => named(`^(?:val-aux/)?docagent/funnel/${id}$`, id === "right" ? "answered right" : label)) },
  { group: "Reward and evidence", title: "Right without the evidence", of: [named("^(?:val-aux/)?docagent/funnel/guessed$", "trajectories"), named("^(?:val-aux/)?docagent/funnel/unsought_reward$", "share of the reward")] },
  { group: "Reward and evidence", title: "How evidence was read", of: BRANCHES.map(({ id, label }) => named(`^(?:val-aux/)?docagent/funnel/${id}$`, label)) },
  { group: "Reward and evidence", title: "Retrieval recall", of: [["docagent/retrieval_recall", "by trajectory"], ["docagent/retriever/recall", "by search"], ["docagent/retriever/mrr", "MRR"]] },
  { group: "Actions", title: "Turns", of: [["docagent/turns", "turns"], ["docagent/pages_seen", "pages seen"]] },
  { group: "Actions", title: "Actions per trajectory", of: [/^docagent\/(searches|crops|fetches|selections|boxes|reads|read_entries|retrieval\/calls|fetch\/calls)$/] },
  { group: "Actions", title: "Invalid actions", of: [["docagent/invalid_action_rate", "rate"], /^docagent\/invalid\/(.+)$/] },
  { group: "Actions", title: "Ended", of: [/^docagent\/(finished|context_full)$/] },
  { group: "Policy", title: "Entropy", of: [["actor/entropy", "entropy"]] },
  { group: "Policy", title: "KL", of: [["actor/kl_loss", "to reference"], ["actor/ppo_kl", "of the update"], /^actor\/(kl_(?:generated|observation|visual))$/] },
  { group: "Policy", title: "Server vs. trainer", of: [["rollout_corr/kl", "KL"], ["training/rollout_probs_diff_mean", "mean difference"]] },
  { group: "Policy", title: "Gradient norm", of: [["actor/grad_norm", "actor"], ["critic/grad_norm", "critic"]] },
  { group: "Policy", title: "Advantage", of: [["critic/advantages/max", "max"], ["critic/advantages/mean", "mean"], ["critic/advantages/min", "min"]] },
  { group: "Lengths and machine", title: "Response tokens", of: [["response_length/max", "max"], ["response_length/mean", "mean"], ["prompt_length/mean", "prompt, mean"]] },
  { group: "Lengths and machine", title: "Truncated", of: [["response_length/clip_ratio", "response"], ["prompt_length/clip_ratio", "prompt"]] },
  { group: "Lengths and machine", title: "Trajectories", of: [/^docagent\/trajectories\/(.+)$/] },
  { group: "Lengths and machine", title: "Seconds per step", unit: "s", of: [/^timing_s\/(step|gen|update_actor|update_critic|old_log_prob|ref|values|adv|reward|save_checkpoint|testing)$/] },
  { group: "Lengths and machine", title: "Tokens per second", of: [["perf/throughput", "tokens/s per device"]] },
  { group: "Lengths and machine", title: "Memory", unit: "GB", of: [["actor/perf/max_memory_allocated_gb", "allocated"], ["actor/perf/max_memory_reserved_gb", "reserved"], ["actor/perf/cpu_memory_used_gb", "host"], ["perf/max_memory_allocated_gb", "allocated"], ["perf/cpu_memory_used_gb", "host"]] },
];

/** The plots for which these names have data, by group. */
export function plotsOf(names: readonly string[]): Map<string, Plot[]> {
  const groups = new Map<string, Plot[]>();
  for (const spec of SPECS) {
    const series = spec.of.flatMap((each) => chosen(each, names));
    if (series.length === 0) continue;
    const plot: Plot = { title: spec.title, series };
    if (spec.unit !== undefined) plot.unit = spec.unit;
    groups.set(spec.group, [...(groups.get(spec.group) ?? []), plot]);
  }
  return groups;
}

function chosen(of: string | [string, string] | RegExp | Named, names: readonly string[]): Plot["series"] {
  if (typeof of === "object" && "pattern" in of) return names.filter((name) => of.pattern.test(name)).map((name) => ({ name, label: of.label }));
  if (of instanceof RegExp) {
    return names.flatMap((name) => {
      const found = of.exec(name);
      return found === null ? [] : [{ name, label: (found[1] ?? name).replace(/_/g, " ") }];
    });
  }
  const [name, label] = typeof of === "string" ? [of, of] : of;
  return names.includes(name) ? [{ name, label }] : [];
}

/** Answers of the server, field by field as `docagent_rl/lab/viewer` writes them. */

/** Fractions of a page or a sheet: x1, y1, x2, y2. */
export type Box = [number, number, number, number];
export type Split = "train" | "val";
/** What is known about an answer; unjudged is not wrong. */
export type OutcomeState = "right" | "wrong" | "unjudged";
/** A page's id is `<document>#<number>`; lists within a document contain just numbers. */
export type PageId = string | number;

export interface Run {
  id: number;
  name: string;
  kind: "training" | "evaluation";
  systems: string[];
  steps: Partial<Record<Split, number[]>>;
  trajectories: number;
  terms: string[];
  revision: number;
  indexing: { done: number; total: number } | null;
  /** Number of lines that are not valid trajectories. */
  damaged?: number;
  /** Why the index cannot be updated. */
  failure?: string | null;
}

export interface Runs {
  runs: Run[];
}

export interface Row {
  id: number;
  step: number;
  split: Split;
  system: string;
  dataset: string;
  question_id: string;
  question: string;
  doc_id: string;
  uid: string;
  number: number;
  status: string;
  end: string;
  /** Null if it is not finite. */
  reward: number | null;
  terms: Record<string, number>;
  turns: number;
  invalid: number;
  tokens: number;
  images: number;
  answer: string | null;
  gold: string[];
  evidence_kind: string;
  stage: string | null;
  seconds: number;
  /** Mean absolute difference between log-probs of server and trainer. */
  drift?: number | null;
  advantage?: number | null;
  /** Null if the system does not report it. */
  outcome?: OutcomeState | null;
  /** Right, although not all evidence was shown. */
  guessed?: boolean | null;
  truncated?: boolean | null;
}

export interface Rows {
  total: number;
  rows: Row[];
}

export interface Facet {
  value: string;
  count: number;
}

export type Range = [number, number];
export type Facets = Record<string, Facet[]> & { ranges?: Record<string, Range> };

export interface Tile {
  page: PageId;
  box: Box | null;
  at: [number, number, number, number];
  gold?: boolean;
}

export interface ImagePart {
  image: number;
  page: PageId | null;
  box: Box | null;
  size: [number, number] | null;
  tiles: Tile[] | null;
  gold?: boolean;
  gold_boxes?: Box[];
  tokens?: number | null;
}

export interface TextPart {
  text: string;
}

export type Part = TextPart | ImagePart;

export interface Message {
  role: string;
  parts: Part[];
}

export interface Span {
  kind: string;
  begin: number;
  end: number;
}

export interface Hit {
  page: PageId;
  rank: number;
  score: number | null;
  gold: boolean;
}

export interface Search {
  retriever?: string;
  query?: string;
  seconds?: number;
  refused?: string | null;
  hits?: [string, number][];
}

export interface Tokens {
  ids: number[];
  texts: string[] | null;
  log_probs: number[];
  trainer_log_probs: number[] | null;
  advantages: number[] | null;
  returns: number[] | null;
  values: number[] | null;
  entropy: number[] | null;
  kl: number[] | null;
}

export interface Turn {
  number: number;
  text: string;
  row: number;
  stop: string;
  reward: number | null;
  terms: Record<string, number>;
  action: Record<string, unknown> | null;
  /** The answer that another role wrote from the trajectory's notes (MM-Doc-R1). */
  outcome?: { answer?: string | null; extracted?: string | null } | null;
  valid: boolean;
  reason: string | null;
  detail: string | null;
  spans: Span[];
  hits: Hit[];
  searches: Search[];
  seconds: Record<string, number>;
  observation: Message[];
  observation_tokens: number;
  dropped: boolean;
  tokens?: Tokens | null;
  strip: { text: number; visual: number; sampled: number };
}

export interface DocumentInfo {
  doc_id: string;
  pages: number;
  gold: PageId[];
  fetched: PageId[];
  searched: PageId[];
  shown: PageId[];
  boxes: Record<string, Box[]>;
}

export interface Credit {
  estimator: string;
  advantage: number | null;
  turns: { value?: number | null; advantage?: number | null }[] | null;
  similarities: Record<string, number> | null;
}

export interface Trajectory {
  id: number;
  step: number;
  split: Split;
  system: string;
  status: string;
  end: string;
  error: string | null;
  uid: string;
  number: number;
  reward: number | null;
  stage?: string | null;
  outcome?: OutcomeState | null;
  guessed?: boolean | null;
  metrics: Record<string, number>;
  sample: Record<string, unknown>;
  document: DocumentInfo[];
  prompt: Message[];
  prompt_strip?: { text: number; visual: number };
  turns: Turn[];
  prompt_tokens: number;
  images: number;
  credit?: Credit | null;
  advantage?: number | null;
  /** How the reward is computed from its terms; null if the run's configuration does not say. */
  formula?: { text: string; weights: Record<string, number> } | null;
}

export interface Group {
  question: string;
  gold: string[];
  trajectories: Trajectory[];
}

export interface FunnelGroup {
  key: string;
  trajectories: number;
  counts: Record<string, number | null>;
  /** Right answers with every gold page in the context; null if unknown. */
  with_evidence: number | null;
  /** Wrong, right and unjudged trajectories by the stage that they missed, after reaching the one before. */
  lost_counts: Record<string, number>;
  right_anyway: Record<string, number>;
  unjudged_at: Record<string, number>;
  /** Query strings for what was lost at each stage, to be added to the current filters. */
  filters: Record<string, string>;
  /** Answers that were not judged; they count as lost at no stage. */
  unjudged: number;
  /** Trajectories that were not masked, and their outcomes, whether or not their evidence is known. */
  played: number;
  outcomes: Record<OutcomeState, number>;
  /** Right answers whose trajectories were not shown every gold page. */
  guessed: number;
  /** How the gold pages were read. */
  branches: Record<string, { trajectories: number; right: number; unjudged: number }>;
}

export interface Funnel {
  groups: FunnelGroup[];
}

export interface Series {
  steps: number[];
  values: Record<string, (number | null)[]>;
}

export interface Metrics {
  names: string[];
  train: Series;
  val: Series;
}

export interface Warning {
  id: string;
  severity: "warn" | "bad";
  title: string;
  text: string;
  steps: number[] | null;
  filter: string | null;
}

export interface Pair {
  question_id: string;
  question: string;
  a: number;
  b: number;
  trajectory_a: number;
  trajectory_b: number;
}

export interface Comparison {
  /** Null if the same trajectories are compared over all steps. */
  step_a: number | null;
  step_b: number | null;
  /** Both have the same trajectories, with different rewards. */
  same_trajectories: boolean;
  /** Null if unknown, or if the measure does not depend on it. */
  same_reward: boolean | null;
  formula_a: string | null;
  formula_b: string | null;
  /** Answers that were not judged; they are left out when right answers are compared. */
  unjudged_a: number;
  unjudged_b: number;
  pairs: number;
  mean_a: number;
  mean_b: number;
  difference: number;
  /** Null for a single document. */
  low: number | null;
  high: number | null;
  method: string;
  /** Null for too few documents. */
  p: number | null;
  least_p: number | null;
  fewest_documents: number;
  documents: number;
  won: number;
  lost: number;
  tied: number;
  rows: Pair[];
}

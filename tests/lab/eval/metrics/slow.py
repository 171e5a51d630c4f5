"""Parts of the official definitions, computed slowly: no shortcuts, and nothing of the package."""

import itertools
import math
import re
import string


def distance(a: str, b: str) -> int:
    """Return the edit distance from the table of all prefixes."""
    table = [[i + j if not i * j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i][j] = min(
                table[i - 1][j] + 1,
                table[i][j - 1] + 1,
                table[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
            )
    return table[len(a)][len(b)]


def upper_anls(gold: str, pred: str) -> float:
    """Score as MMLongBench-Doc and LongDocURL do: ANLS above one half, with lengths of upper-cased
    texts.
    """
    length = max(len(gold.upper()), len(pred.upper()))
    similarity = 1 - (distance(gold, pred) / length if length else 0)
    return similarity if similarity > 0.5 else 0.0


def tail(text: str, pound: bool) -> str:
    """Remove parentheses, quotes, currency and percent."""
    text = re.sub(r"\s*\([^)]*\)", "", text).strip()
    text = re.sub(r"^['\"]|['\"]$", "", text).strip()
    text = text.lstrip("$").strip()
    text = text.lstrip("£").strip() if pound else text
    return text.rstrip("%").strip()


def exact(text: str) -> bool:
    """Return whether a gold belongs to the exact-match class."""
    patterns = [
        r"\d+", r"\d+-\d+", r"\d+\s\d+", r"\d{4}[-\s]\d{2}[-\s]\d{2}", r"\d{4}[-\s]\d{2}",
        r"[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}",
    ]  # fmt: skip
    return (
        "https://" in text or text[-3:] == ".py" or text[-5:] == "ipynb" or text[:4] == "page"
        or "a.m." in text or "p.m." in text or any(re.fullmatch(pattern,
        text) for pattern in patterns)
    )  # fmt: skip


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def same_number(gold: float, pred: float) -> bool:
    """Return whether numbers are within one percent of the larger one, or equal after rounding,
    with gold / 100, gold and gold * 100.
    """

    def decimals(value: float) -> int:
        pieces = str(value).split(".")
        return len(pieces[-1]) if len(pieces) > 1 else 3

    for candidate in (gold / 100, gold, gold * 100):
        if candidate == pred or abs(candidate - pred) <= 0.01 * max(
            abs(candidate), abs(pred)
        ) < float("inf"):
            return True
        places = max(2, min(decimals(pred), decimals(candidate)))
        if round(pred, places) == round(candidate, places):
            return True
    return False


def numbers(gold: str, pred: str) -> float:
    """Score two cleaned texts that should be numbers."""
    wanted, given = number(gold), number(pred)
    return float(wanted is not None and given is not None and same_number(wanted, given))


def texts(gold: str, pred: str) -> float:
    """Score two cleaned texts."""
    return float(gold == pred) if exact(gold) else upper_anls(gold, pred)


def accuracy_f1(rows) -> tuple[float, float]:
    """Return the generalised accuracy and F1 of MMLongBench-Doc over gold answers, predictions and
    scores.
    """
    rows, sums, golds, said = list(rows), 0.0, 0, 0
    for answer, pred, score in rows:
        if answer != "Not answerable":
            sums, golds = sums + score, golds + 1
        said += pred != "Not answerable"
    recall = sums / golds if golds else 0.0
    precision = sums / said if said else 0.0
    f1 = 2 * recall * precision / (recall + precision) if recall + precision else 0.0
    return sum(score for *_, score in rows) / len(rows) if rows else 0.0, f1


def page_lists(pairs) -> dict[str, list[float]]:
    """Return recall, precision and F1 of questions with evidence, each from its gold pages and its
    collected pages.
    """
    known = [
        (sum(page in gold for page in found), len(gold), len(found))
        for gold, found in pairs
        if gold
    ]
    return {
        "recall": [both / gold for both, gold, _ in known],
        "precision": [both / found if found else 0 for both, _, found in known],
        "f1": [2 * both / (gold + found) for both, gold, found in known],
    }


def squad(text: str) -> list[str]:
    """Return the words after SQuAD's normalisation."""
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def overlap(gold: list, pred: list) -> dict[str, float]:
    """Return exact match, precision, recall and F1 of the multiset overlap, by crossing out."""
    left = list(gold)
    for item in pred:
        if item in left:
            left.remove(item)
    common = len(gold) - len(left)
    if not common:
        return dict.fromkeys(("em", "f1", "precision", "recall"), 0)
    precision, recall = common / len(pred), common / len(gold)
    f1 = 2 * precision * recall / (precision + recall)
    return {"em": float(gold == pred), "f1": f1, "precision": precision, "recall": recall}


def anls_star(variants: list[list[str]], pred: list[str]) -> float:
    """Score as MADQA does: try all ways to pair items, one after the other, with lengths of
    normalised texts.
    """

    def similar(a: str, b: str) -> float:
        a, b = " ".join(a.lower().split()), " ".join(b.lower().split())
        if not a and not b:
            return 1.0
        found = 1 - distance(a, b) / max(len(a), len(b))
        return found if found >= 0.5 else 0.0

    best = 0.0
    for gold in variants:
        short, long = sorted((gold, pred), key=len)
        for chosen in itertools.permutations(long, len(short)):
            found = sum(similar(a, b) for a, b in zip(short, chosen, strict=True))
            best = max(best, found / len(long) if pred else 0.0)
    return best


def graded_ndcg(grades: dict[str, float], ranked: list[str], cutoff: int) -> float | None:
    """Return nDCG relative to the best of all orders of the relevant items."""

    def gain(order) -> float:
        return sum(
            max(grades.get(item, 0), 0) / math.log2(place + 2) for place, item in enumerate(order)
        )

    relevant = [item for item in grades if grades[item] > 0]
    if not relevant:
        return None
    best = max(gain(order[:cutoff]) for order in itertools.permutations(relevant))
    seen: list[str] = []
    for item in ranked:
        if item not in seen:
            seen.append(item)
    return gain(seen[:cutoff]) / best


def kuiper(played: list[tuple[int, bool]]) -> float | None:
    """Compute every cumulative sum separately."""
    rights = [right for steps in range(1, 99) for s, right in played if s == steps]
    if not rights or all(rights) or not any(rights):
        return None
    mean = sum(rights) / len(rights)
    sums = [sum(right - mean for right in rights[: k + 1]) for k in range(len(rights))]
    return max(sums) - min(sums)

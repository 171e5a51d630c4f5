import { useRef, useState } from "preact/hooks";
import { imageUrl } from "../api/client";
import { imagePath, pagePath } from "../api/paths";
import type { ImagePart, PageId } from "../api/types";
import { intoCrop, isWhole, ontoSheet, pageDocument, pageNumber, WHOLE } from "../logic/boxes";
import { Boxes, type Marked } from "./boxes";

/** Minimum and maximum width at which an image is drawn; the model often saw a smaller one. */
const LEAST = 220;
const MOST = 460;

/** An image as the model saw it, with the evidence marked; next to a crop, the page that it was cut from. */
export function Picture({ part, run, trajectory }: { part: ImagePart; run: number; trajectory: number }) {
  const [large, setLarge] = useState(false);
  const url = imageUrl(imagePath(run, trajectory, part.image));
  const [width, height] = part.size ?? [LEAST, LEAST];
  const drawn = Math.max(Math.min(LEAST, width * 2), Math.min(MOST, width));
  const marks = marksOn(part);
  const crop = part.box !== null && !isWhole(part.box) && !part.tiles?.length;
  const name = nameOf(part);
  return (
    <figure class="picture">
      <button type="button" class="frame" onClick={() => setLarge(true)} aria-label={`${name}: enlarge`} style={{ width: `${drawn}px` }}>
        <Shown url={url} alt={name} width={width} height={height} />
        <Boxes boxes={marks} />
      </button>
      {crop && <Origin part={part} run={run} height={Math.min(220, (drawn * height) / width)} />}
      <figcaption>
        <b>{name}</b>
        <span class="num">{width} × {height}</span>
        {part.tokens ? <span class="num">{part.tokens} tokens</span> : null}
        {part.gold && <span class="tag gold">evidence</span>}
      </figcaption>
      {large && url !== null && <Large url={url} name={name} marks={marks} close={() => setLarge(false)} size={[width, height]} />}
    </figure>
  );
}

function Shown({ url, alt, width, height }: { url: string | null; alt: string; width: number; height: number }) {
  const [failed, setFailed] = useState(false);
  if (url === null || failed) {
    return (
      <span class="no-image" style={{ aspectRatio: `${width} / ${height}` }}>
        {url === null ? "not in this file" : "image not available"}
      </span>
    );
  }
  return <img src={url} alt={alt} width={width} height={height} loading="lazy" decoding="async" onError={() => setFailed(true)} />;
}

/** The page that a crop was cut from, with the place of the crop. */
function Origin({ part, run, height }: { part: ImagePart; run: number; height: number }) {
  const doc = pageDocument(part.page);
  const page = pageNumber(part.page);
  if (doc === null || page === null || part.box === null) return null;
  const url = imageUrl(pagePath(run, doc, page, 320));
  if (url === null) return null;
  const marks: Marked[] = [
    ...(part.gold_boxes ?? []).map((box): Marked => ({ box, kind: "gold", label: "evidence" })),
    { box: part.box, kind: "crop", label: "looked at" },
  ];
  return (
    <span class="frame origin" style={{ height: `${Math.max(110, height)}px` }}>
      <img src={url} alt={`page ${page}, with the place of the crop`} loading="lazy" decoding="async" />
      <Boxes boxes={marks} />
    </span>
  );
}

function Large({ url, name, marks, close, size }: {
  url: string;
  name: string;
  marks: readonly Marked[];
  close: () => void;
  size: [number, number];
}) {
  const [plain, setPlain] = useState(false);
  const opened = useRef(false);
  const open = (dialog: HTMLDialogElement | null): void => {
    if (dialog === null || opened.current) return;
    opened.current = true;
    dialog.showModal();
  };
  return (
    <dialog ref={open} class="lightbox" onClose={close} aria-label={name}>
      <div class="frame" style={{ aspectRatio: `${size[0]} / ${size[1]}`, width: `min(92vw, ${(84 * size[0]) / size[1]}vh)` }}>
        <img src={url} alt={name} />
        {!plain && <Boxes boxes={marks} />}
      </div>
      <footer>
        <span>{name}, as the model saw it: {size[0]} × {size[1]}</span>
        {marks.length > 0 && (
          <button type="button" class="quiet" aria-pressed={!plain} onClick={() => setPlain(!plain)}>Boxes</button>
        )}
        <button type="button" class="quiet" onClick={(event) => event.currentTarget.closest("dialog")?.close()}>Close</button>
      </footer>
    </dialog>
  );
}

function marksOn(part: ImagePart): Marked[] {
  const gold = part.gold_boxes ?? [];
  const evidence = (box: Marked["box"]): Marked => ({ box, kind: "gold", label: "evidence" });
  if (part.tiles?.length) {
    return part.tiles.flatMap((tile) => {
      if (!tile.gold) return [];
      const seen = tile.box ?? WHOLE;
      const boxes = part.page === null ? [] : gold.map((box) => intoCrop(box, seen)).filter((box) => box !== null);
      return (boxes.length > 0 || part.page !== null ? boxes : [WHOLE]).map((box) => evidence(ontoSheet(box, tile.at)));
    });
  }
  return gold.flatMap((box) => {
    const inside = intoCrop(box, part.box ?? WHOLE);
    return inside === null ? [] : [evidence(inside)];
  });
}

function nameOf(part: ImagePart): string {
  if (part.tiles?.length) {
    const pages = part.tiles.map((tile) => pageNumber(tile.page)).filter((page): page is number => page !== null);
    return pages.length > 1 ? `Sheet of pages ${Math.min(...pages)}–${Math.max(...pages)}` : "Sheet";
  }
  const page = label(part.page);
  return part.box !== null && !isWhole(part.box) ? `Crop of ${page}` : sentence(page);
}

function label(page: PageId | null): string {
  const number = pageNumber(page);
  return number === null ? "page" : `page ${number}`;
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * Where something stands in a lane: `milliseconds-count`, kept as one whole number (a thousand a millisecond, far below
 * 2^53) so that it is a row id. A burst beyond a thousand goes on in the next millisecond.
 */

const PER_MS = 1000;

export function nextPlace(last: number, now: number): number {
    return Math.max(now * PER_MS, last + 1);
}

export function placeMs(place: number): number {
    return Math.floor(place / PER_MS);
}

export function placeText(place: number): string {
    return `${placeMs(place)}-${place % PER_MS}`;
}

/** -1 for a text that this store never gave out. */
export function place(text: string): number {
    const found = /^(\d{1,13})-(\d{1,15})$/.exec(text);
    if (found === null) return -1;
    return parseInt(found[1] ?? '', 10) * PER_MS + Math.min(parseInt(found[2] ?? '', 10), PER_MS - 1);
}

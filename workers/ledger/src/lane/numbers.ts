/** The numbers of a keyless lane, handed out one by one. A number that may have been sent is never handed out again. */

import { Refusal } from '../object';
import type { Row } from '../sql';
import { checkFence, checkHistory, type Step } from './row';
import type { Fenced } from './own';

const FORGET_AFTER_MS = 600_000;
const WAIT_ALIVE_MS = 10_000;
const DIGITS = 20;

export interface Use {
    token: string;
    nonce: string;
    hash: string;
}

interface Held extends Row {
    token: string;
    state: string;
    nonce: string;
    at: number;
    till: number;
    sent: string;
    owner: string;
    ticket: number;
}

interface Wish {
    token: string;
    ttl_ms: number;
    chain: string | null;
    seed: string | null;
    cap: { owner: string; most: number } | null;
}

function heldBy({ sql }: Step, token: string): Held | undefined {
    return sql.one<Held>('SELECT * FROM held WHERE token = ?', token);
}

function put({ sql }: Step, held: Held): void {
    sql.run(
        `INSERT OR REPLACE INTO held (token, state, nonce, at, till, sent, owner, ticket)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
        ...[held.token, held.state, held.nonce, held.at, held.till, held.sent, held.owner, held.ticket],
    );
}

/** Why a number may not be used with this token, if so. */
export function taken(step: Step, use: Use | null): 'unreserved' | 'used' | null {
    const { lane } = step;
    if (lane.keyless !== 1) return use === null ? null : 'unreserved';
    if (use === null) return 'unreserved';
    const held = heldBy(step, use.token);
    if (held?.nonce !== use.nonce) return 'unreserved';
    if (held.state !== 'reserved' && held.state !== 'sent') return 'unreserved';
    // A count that was seen may be taken back by a reorg: what was sent may be replaced until it is final.
    if (isLanded(step, use.nonce)) return 'used';
    return held.state === 'reserved' && isSpent(step, use.nonce) ? 'used' : null;
}

export function bind(step: Step, use: Use, id: string): void {
    const held = heldBy(step, use.token);
    if (held === undefined) return;
    const sent = JSON.parse(held.sent) as [string, string][];
    sent.push([use.hash, id]);
    put(step, { ...held, state: 'sent', till: step.now + FORGET_AFTER_MS, sent: JSON.stringify(sent) });
}

export function reserve(step: Step, wish: Wish): object {
    const { lane, now } = step;
    const held = heldBy(step, wish.token);
    if (held !== undefined) {
        if (held.state === 'reserved') return { word: 'reserved', nonce: held.nonce, until: held.till };
        return held.state === 'sent' ? { word: 'sent', nonce: held.nonce } : { word: 'over' };
    }
    const stopped = whyStopped(step);
    if (stopped !== null) return { word: 'refused', state: stopped };
    if (lane.cursor === null && wish.seed === null) return { word: 'cold' };
    expire(step);
    if (hasAll(step, wish)) return { word: 'many' };
    const { nonce, skipped } = handOut(step, wish);
    const till = now + wish.ttl_ms;
    const owner = wish.cap?.owner ?? '';
    put(step, { token: wish.token, state: 'reserved', nonce, at: now, till, sent: '[]', owner, ticket: 0 });
    return { word: 'reserved', nonce, until: till, skipped };
}

export function turn(step: Step, wish: Wish): object {
    const { sql, lane, now } = step;
    const held = heldBy(step, wish.token);
    if (held !== undefined && held.state !== 'waiting') {
        if (held.state === 'reserved' && lane.turn === wish.token) {
            return { word: 'granted', nonce: held.nonce, fence: lane.turn_fence, until: held.till };
        }
        return held.state === 'sent' ? { word: 'sent', nonce: held.nonce } : { word: 'over' };
    }
    const stopped = whyStopped(step);
    if (stopped !== null) return { word: 'refused', state: stopped };
    if (lane.cursor === null && wish.seed === null) return { word: 'cold' };
    expire(step);
    if (hasAll(step, wish)) return { word: 'many' };
    const mine = { token: wish.token, at: now, sent: '[]', owner: wish.cap?.owner ?? '' };
    // whoever was silent for too long lost the place in line
    let ticket = heldBy(step, wish.token)?.ticket;
    if (ticket === undefined) {
        lane.tickets += 1;
        ticket = lane.tickets;
    }
    const before = "SELECT count(*) AS n FROM held WHERE state = 'waiting' AND ticket < ?";
    const ahead = sql.count(before, ticket) + (lane.turn === '' ? 0 : 1);
    if (ahead > 0) {
        put(step, { ...mine, state: 'waiting', nonce: '-1', till: now + WAIT_ALIVE_MS, ticket });
        return { word: 'waiting', ahead };
    }
    const { nonce, skipped } = handOut(step, wish);
    const till = now + wish.ttl_ms;
    put(step, { ...mine, state: 'reserved', nonce, till, ticket: 0 });
    lane.turn = wish.token;
    lane.turn_until = till;
    lane.turn_fence += 1;
    return { word: 'granted', nonce, fence: lane.turn_fence, until: till, skipped };
}

/** Give a number back that was not sent; `unlock` ends a turn, or leaves the line. */
export function recycle(step: Step, { token, unlock }: { token: string; unlock: boolean }): object {
    const { lane } = step;
    const held = heldBy(step, token);
    if (held === undefined || held.state === 'over') return { word: 'over' };
    if (held.state === 'waiting') {
        if (!unlock) return { word: 'over' };
        over(step, held);
        return { word: 'recycled' };
    }
    if (unlock && lane.turn !== token) return { word: 'over' };
    if (held.state === 'sent') {
        if (unlock) lane.turn = '';
        return { word: 'sent', nonce: held.nonce };
    }
    free(step, held.nonce);
    over(step, held);
    return { word: 'recycled', nonce: held.nonce, gap: (BigInt(held.nonce) + 1n).toString() !== lane.cursor };
}

/** Take back what expired unused; answers how many numbers go out again. */
export function expire(step: Step): number {
    const { sql, lane, now } = step;
    let moved = 0;
    if (lane.turn !== '' && lane.turn_until <= now) lane.turn = '';
    for (const held of sql.all<Held>('SELECT * FROM held WHERE till <= ?', now)) {
        if (held.state === 'reserved') {
            free(step, held.nonce);
            over(step, held);
            moved += 1;
        } else if (held.state === 'sent' && !isLanded(step, held.nonce)) {
            sql.run('UPDATE held SET till = ? WHERE token = ?', now + FORGET_AFTER_MS, held.token);
        } else {
            sql.run('DELETE FROM held WHERE token = ?', held.token);
        }
    }
    return moved;
}

/** On an operator's word: believe the chain's count, and hand out again what nobody holds. */
export function reclaim(step: Step, args: Fenced & { chain: string; nonces: string[] }): number {
    const { sql, lane } = step;
    checkFence(step, args.fence);
    lane.floor = args.chain;
    let found = 0;
    for (const nonce of args.nonces) {
        if (BigInt(nonce) >= BigInt(lane.cursor ?? '0')) continue;
        const live = "SELECT 1 AS n FROM held WHERE nonce = ? AND state IN ('reserved', 'sent')";
        if (sql.one(live, nonce) !== undefined) continue;
        if (isSpent(step, nonce)) continue;
        if (sql.one('SELECT 1 AS n FROM reuse WHERE nonce = ?', padded(nonce)) !== undefined) continue;
        sql.run('INSERT INTO reuse (nonce) VALUES (?)', padded(nonce));
        found += 1;
    }
    return found;
}

export function book(step: Step): object {
    const { sql, lane, now } = step;
    checkKeyless(step);
    return {
        next_nonce: lane.cursor,
        chain_nonce: lane.floor ?? '0',
        reserved: sql.all("SELECT * FROM held WHERE state IN ('reserved', 'sent')"),
        reuse: sql.all<{ nonce: string }>('SELECT nonce FROM reuse ORDER BY nonce').map((row) => plain(row.nonce)),
        holder: lane.turn,
        waiting: sql.count("SELECT count(*) AS n FROM held WHERE state = 'waiting'"),
        checked_at: lane.checked,
        at: now,
    };
}

export function checked({ lane, now }: Step): null {
    lane.checked = now;
    return null;
}

/** What of a keyless lane may still matter. */
export function obstacle(step: Step): string {
    const { sql, lane } = step;
    if (lane.queued + lane.unfinished + lane.unretired + lane.depth > 0) return 'records';
    if (sql.one('SELECT 1 AS n FROM fills') !== undefined) return 'records';
    if (sql.one('SELECT 1 AS n FROM backlog') !== undefined) return 'records';
    const live = sql.all<Held>("SELECT * FROM held WHERE state IN ('reserved', 'waiting', 'sent')");
    if (live.some((held) => held.state === 'sent' && !isLanded(step, held.nonce))) return 'sent';
    return live.some((held) => held.state !== 'sent') ? 'reserved' : '';
}

function hasAll({ sql }: Step, { token, cap }: Wish): boolean {
    if (cap === null) return false;
    const query = "SELECT token FROM held WHERE owner = ? AND state IN ('reserved', 'waiting')";
    const held = sql.all<{ token: string }>(query, cap.owner);
    return held.length >= cap.most && !held.some((one) => one.token === token);
}

/** The state in which nothing is handed out. */
function whyStopped(step: Step): string | null {
    if (step.lane.parked === 1) throw new Refusal('not_found');
    checkKeyless(step);
    checkHistory(step);
    const { state } = step.lane;
    return state === 'active' || state === 'paused' ? null : state;
}

function checkKeyless({ lane }: Step): void {
    if (lane.keyless !== 1) throw new Refusal('signing');
}

/** The lowest number to be reused, else the counter's; and how many the chain has skipped. */
function handOut(step: Step, { chain, seed }: Wish): { nonce: string; skipped: string } {
    const { sql, lane, now } = step;
    const was = lane.cursor;
    lane.used = now;
    let cursor = BigInt(was ?? seed ?? '0');
    let skipped = 0n;
    if (chain !== null) {
        const count = BigInt(chain);
        if (lane.floor === null || BigInt(lane.floor) < count) lane.floor = chain;
        if (cursor < count) {
            skipped = was === null ? 0n : count - BigInt(was);
            cursor = count;
        }
    }
    lane.cursor = cursor.toString();
    for (;;) {
        const lowest = sql.one<{ nonce: string }>('SELECT nonce FROM reuse ORDER BY nonce LIMIT 1');
        if (lowest === undefined) break;
        sql.run('DELETE FROM reuse WHERE nonce = ?', lowest.nonce);
        const nonce = plain(lowest.nonce);
        if (!isSpent(step, nonce)) return { nonce, skipped: skipped.toString() };
    }
    lane.cursor = (cursor + 1n).toString();
    return { nonce: cursor.toString(), skipped: skipped.toString() };
}

function isLanded({ lane }: Step, nonce: string): boolean {
    return lane.landed !== null && BigInt(nonce) <= BigInt(lane.landed);
}

function isSpent(step: Step, nonce: string): boolean {
    const { floor } = step.lane;
    return isLanded(step, nonce) || (floor !== null && BigInt(nonce) < BigInt(floor));
}

function free(step: Step, nonce: string): void {
    if (!isSpent(step, nonce)) step.sql.run('INSERT OR IGNORE INTO reuse (nonce) VALUES (?)', padded(nonce));
}

function over(step: Step, held: Held): void {
    put(step, { ...held, state: 'over', till: step.now + FORGET_AFTER_MS, ticket: 0 });
    if (step.lane.turn === held.token) step.lane.turn = '';
}

/** So that the order of the texts is that of the numbers. */
function padded(nonce: string): string {
    return nonce.padStart(DIGITS, '0');
}

function plain(nonce: string): string {
    return BigInt(nonce).toString();
}

/**
 * Homes: who owns an idempotency key, and its final answer for as long as it is kept. One object holds 64 of the 1024
 * home slots; the caller computes the slot. What expired leaves with later calls, a hundred at a time.
 */

import { LedgerObject, Refusal, allow, type Role } from './object';
import type { Row, Sql } from './sql';

const CLEANED_AT_ONCE = 100;

const TABLES = [
    `
CREATE TABLE homes (
  id TEXT PRIMARY KEY,
  slot INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  lane TEXT NOT NULL,
  life TEXT NOT NULL,
  born INTEGER NOT NULL,
  alias_of TEXT,
  record TEXT,
  expires INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX open_homes ON homes (slot, born) WHERE record IS NULL;
CREATE INDEX expiring_homes ON homes (expires) WHERE expires IS NOT NULL`,
];

interface HomeRow extends Row {
    id: string;
    fingerprint: string;
    lane: string;
    life: string;
    born: number;
    alias_of: string | null;
    record: string | null;
    expires: number | null;
}

interface Wish {
    id: string;
    slot: number;
    fingerprint: string;
    lane: string;
    life: string;
}

interface Final {
    id: string;
    slot: number;
    fingerprint: string;
    lane: string;
    life: string;
    born: number;
    record: string;
}

interface At {
    sql: Sql;
    now: number;
}

function get({ sql, now }: At, id: string): HomeRow | undefined {
    const home = sql.one<HomeRow>('SELECT * FROM homes WHERE id = ?', id);
    return home?.expires != null && home.expires <= now ? undefined : home;
}

function put({ sql }: At, home: Final | (Wish & { born: number }), alias: string | null, expires: number | null): void {
    const record = 'record' in home ? home.record : null;
    sql.run(
        `INSERT OR REPLACE INTO homes (id, slot, fingerprint, lane, life, born, alias_of, record, expires)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        ...[home.id, home.slot, home.fingerprint, home.lane, home.life, home.born, alias, record, expires],
    );
}

function told(word: string, home: HomeRow): object {
    return { word, lane: home.lane, life: home.life, born: home.born, record: home.record, fingerprint: home.fingerprint };
}

function claimOne(at: At, wish: Wish): object {
    const home = get(at, wish.id);
    if (home === undefined) {
        put(at, { ...wish, born: at.now }, null, null);
        return { word: 'claimed', lane: wish.lane, life: wish.life, born: at.now };
    }
    if (home.fingerprint !== wish.fingerprint) return { word: 'conflict' };
    if (home.record !== null) return told('final', home);
    at.sql.run('UPDATE homes SET born = ? WHERE id = ?', at.now, wish.id);
    if (home.alias_of !== null) return { word: 'alias', alias_of: home.alias_of };
    return { word: 'renewed', lane: home.lane, life: home.life, born: at.now };
}

function claim(at: At, { claims }: { claims: Wish[] }): object[] {
    clean(at);
    return claims.map((wish) => claimOne(at, wish));
}

function move(at: At, args: { id: string; life: string; from: string; to: string }): object {
    const home = get(at, args.id);
    if (home === undefined) return { word: 'conflict' };
    if (home.alias_of !== null) return { word: 'conflict' };
    if (home.life !== args.life) return { word: 'conflict' };
    if (home.record !== null) return told('final', home);
    if (home.lane === args.from) {
        at.sql.run('UPDATE homes SET lane = ?, born = ? WHERE id = ?', args.to, at.now, args.id);
        return { word: 'renewed', lane: args.to, life: home.life, born: at.now };
    }
    return { word: 'renewed', lane: home.lane, life: home.life, born: home.born };
}

function alias(at: At, args: { id: string; slot: number; fingerprint: string; target: string }): object {
    const home = get(at, args.id);
    const wish = { ...args, lane: '', life: '' };
    if (home === undefined) {
        put(at, { ...wish, born: at.now }, args.target, null);
        return { word: 'alias', alias_of: args.target };
    }
    return claimOne(at, wish);
}

/** What a read begins with. */
function read(at: At, { id }: { id: string }): object | null {
    const home = get(at, id);
    return home === undefined ? null : { ...told('', home), alias_of: home.alias_of };
}

function retire(at: At, { finals, keep_ms }: { finals: Final[]; keep_ms: number }): boolean[] {
    clean(at);
    return finals.map((final) => {
        const home = get(at, final.id);
        if (home !== undefined && home.life !== final.life) return false;
        if (home?.record == null) put(at, final, null, at.now + keep_ms);
        return true;
    });
}

/** Open claims and aliases of one slot that nobody renewed, a page at a time. */
function stale(at: At, args: { slot: number; older_ms: number; skip: number; count: number }): object[] {
    clean(at);
    const query = `SELECT id, lane, life, born, alias_of FROM homes
        WHERE slot = ? AND record IS NULL AND born < ? ORDER BY born, id LIMIT ? OFFSET ?`;
    return at.sql.all(query, args.slot, at.now - args.older_ms, args.count, args.skip);
}

/** Final records, a page at a time, for what has to be rebuilt. */
function finals({ sql, now }: At, { after, count }: { after: string; count: number }): object[] {
    const query = `SELECT id, fingerprint, lane, life, record FROM homes
        WHERE id > ? AND record IS NOT NULL AND expires > ? ORDER BY id LIMIT ?`;
    return sql.all(query, after, now, count);
}

/** Delete an open claim or an alias, only if it is still the one that was read. */
function forget(at: At, args: { id: string; life: string; born: number }): boolean {
    const home = get(at, args.id);
    if (home === undefined) return false;
    if (home.record !== null) return false;
    if (home.life !== args.life) return false;
    if (home.born !== args.born) return false;
    at.sql.run('DELETE FROM homes WHERE id = ?', args.id);
    return true;
}

function clean({ sql, now }: At): void {
    sql.run(
        `DELETE FROM homes WHERE id IN
        (SELECT id FROM homes WHERE expires IS NOT NULL AND expires <= ? ORDER BY expires LIMIT ${CLEANED_AT_ONCE})`,
        now,
    );
}

interface Operation {
    by: Role;
    run: (at: At, args: never) => unknown;
    /** What a home says of which nothing was ever written. */
    empty?: unknown;
}

export const HOME_OPERATIONS: Readonly<Record<string, Operation>> = {
    claim: { by: 'producer', run: claim },
    move: { by: 'producer', run: move },
    alias: { by: 'producer', run: alias },
    read: { by: 'producer', run: read, empty: null },
    retire: { by: 'owner', run: retire },
    stale: { by: 'owner', run: stale, empty: [] },
    finals: { by: 'owner', run: finals, empty: [] },
    forget: { by: 'owner', run: forget, empty: false },
};

export class Home extends LedgerObject {
    protected readonly tables = TABLES;

    protected step(name: string, args: unknown, role: Role, _request: string, now: number): unknown {
        const operation = HOME_OPERATIONS[name];
        if (operation === undefined) throw new Refusal('unknown_operation', { operation: name });
        allow(role, operation.by);
        if (operation.empty !== undefined && !this.exists()) return operation.empty;
        this.open();
        return operation.run({ sql: this.sql, now }, args as never);
    }
}

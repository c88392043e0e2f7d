/** Codes that buy one session, and sessions that end by themselves. Both are known by a digest alone. */

import type { At } from './index';

interface Pass {
    issuer: string;
    id: string;
}

function makeRoom({ sql, now }: At, table: 'codes' | 'sessions', issuer: string, keep: number): void {
    sql.run(`DELETE FROM ${table} WHERE ends <= ?`, now);
    const many = sql.count(`SELECT count(*) AS n FROM ${table} WHERE issuer = ?`, issuer);
    if (many < keep) return;
    sql.run(
        `DELETE FROM ${table} WHERE issuer = ? AND id IN
        (SELECT id FROM ${table} WHERE issuer = ? ORDER BY ends LIMIT ?)`,
        ...[issuer, issuer, many - keep + 1],
    );
}

export function offerCode(at: At, args: Pass & { lasts_ms: number; keep: number }): null {
    makeRoom(at, 'codes', args.issuer, args.keep);
    const query = 'INSERT OR REPLACE INTO codes (issuer, id, ends) VALUES (?, ?, ?)';
    at.sql.run(query, args.issuer, args.id, at.now + args.lasts_ms);
    return null;
}

interface Opening extends Pass {
    code: string;
    origin: string;
    lasts_ms: number;
    keep: number;
}

/** Use up a code and open a session, in one step: of two who bring the same code, one gets a session. */
export function openSession(at: At, args: Opening): object | null {
    const { sql, now } = at;
    const { issuer, id } = args;
    const known = sql.one('SELECT * FROM sessions WHERE issuer = ? AND id = ?', issuer, id);
    if (known !== undefined) return known; // the reply was lost
    const query = 'DELETE FROM codes WHERE issuer = ? AND id = ? RETURNING ends';
    const code = sql.one<{ ends: number }>(query, issuer, args.code);
    if (code === undefined || code.ends <= now) return null;
    makeRoom(at, 'sessions', issuer, args.keep);
    sql.run(
        'INSERT INTO sessions (issuer, id, opened, ends, origin) VALUES (?, ?, ?, ?, ?)',
        ...[issuer, id, now, now + args.lasts_ms, args.origin],
    );
    return { id, opened: now, ends: now + args.lasts_ms, origin: args.origin };
}

/** Those that are open; with an id that one alone. */
export function sessions({ sql, now }: At, { issuer, id }: { issuer: string; id: string | null }): object[] {
    const query = 'SELECT * FROM sessions WHERE issuer = ? AND ends > ? AND id = coalesce(?, id)';
    return sql.all(query, issuer, now, id);
}

export function endSession({ sql }: At, { issuer, id }: Pass): boolean {
    return sql.all('DELETE FROM sessions WHERE issuer = ? AND id = ? RETURNING id', issuer, id).length > 0;
}

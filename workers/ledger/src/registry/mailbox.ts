/** What delivering webhooks has to remember. Losing any of it costs a second delivery, never a missing one. */

import type { At } from './index';

interface Letter {
    id: string;
    target: string;
    at: number;
    letter: string;
}

export function holdTarget({ sql, now }: At, args: { target: string; holder: string; for_ms: number }): boolean {
    const { target, holder, for_ms } = args;
    const known = sql.one<{ holder: string; until: number }>('SELECT * FROM holders WHERE target = ?', target);
    if (known !== undefined && known.holder !== holder && known.until > now) return false;
    sql.run('INSERT OR REPLACE INTO holders (target, holder, until) VALUES (?, ?, ?)', target, holder, now + for_ms);
    return true;
}

export function places({ sql }: At, { target }: { target: string }): object {
    const rows = sql.all<{ lane: string; event: string }>('SELECT lane, event FROM places WHERE target = ?', target);
    return Object.fromEntries(rows.map((row) => [row.lane, row.event]));
}

export function advance({ sql }: At, args: { target: string; lane: string; event: string }): null {
    const query = 'INSERT OR REPLACE INTO places (target, lane, event) VALUES (?, ?, ?)';
    sql.run(query, args.target, args.lane, args.event);
    return null;
}

export function buryLetter({ sql }: At, args: Letter & { limit: number }): null {
    const query = 'INSERT OR REPLACE INTO letters (id, target, at, revived, letter) VALUES (?, ?, ?, 0, ?)';
    sql.run(query, args.id, args.target, args.at, args.letter);
    sql.run(
        `DELETE FROM letters WHERE id IN
        (SELECT id FROM letters WHERE revived = 0 ORDER BY at DESC LIMIT -1 OFFSET ?)`,
        args.limit,
    );
    return null;
}

export function dead({ sql }: At): string[] {
    const query = 'SELECT letter FROM letters WHERE revived = 0 ORDER BY at DESC';
    return sql.all<{ letter: string }>(query).map((row) => row.letter);
}

export function revive({ sql }: At, { id }: { id: string }): string | null {
    sql.run('UPDATE letters SET revived = 1 WHERE id = ?', id);
    return sql.one<{ letter: string }>('SELECT letter FROM letters WHERE id = ?', id)?.letter ?? null;
}

export function revived({ sql }: At, { target }: { target: string }): string[] {
    const query = 'SELECT letter FROM letters WHERE revived = 1 AND target = ?';
    return sql.all<{ letter: string }>(query, target).map((row) => row.letter);
}

export function delivered({ sql }: At, { id }: { id: string }): null {
    sql.run('DELETE FROM letters WHERE id = ? AND revived = 1', id);
    return null;
}

/** Lanes as producers route to them, and the workers that live. */

import type { At } from './index';

const NEVER_CAME_MS = 60_000;

interface Route {
    lane: string;
    pool: string;
    weight: number;
    state: string;
    revision: number;
    /** Whether nobody uses it: it is no route. An older client sends none. */
    parked?: boolean;
}

/** What a process asks first: the store's clock, and what its secret allows. */
export function hello({ now, role }: At): object {
    return { now, role };
}

/** Tell producers what a lane is like now; older news never overwrites newer. */
export function publish({ sql }: At, route: Route): null {
    sql.run(
        `INSERT INTO routes (lane, pool, weight, state, revision, parked) VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT (lane) DO UPDATE SET pool = excluded.pool, weight = excluded.weight, state = excluded.state,
        revision = excluded.revision, parked = excluded.parked WHERE excluded.revision >= revision`,
        ...[route.lane, route.pool, route.weight, route.state, route.revision, route.parked === true ? 1 : 0],
    );
    return null;
}

export function routes({ sql }: At): object[] {
    return sql.all('SELECT lane, pool, weight, state FROM routes WHERE parked = 0 ORDER BY lane');
}

/** Lanes that left the registry because nobody uses them. */
export function parked({ sql }: At): object[] {
    return sql.all('SELECT lane, pool, weight, state FROM routes WHERE parked = 1 ORDER BY lane');
}

export function withdraw({ sql }: At, { lane }: { lane: string }): boolean {
    return sql.all('DELETE FROM routes WHERE lane = ? RETURNING lane', lane).length > 0;
}

/** Whether a caller may bring this lane into being; one that is gone, or never came to be, is let go. */
export function admit({ sql, now }: At, args: { owner: string; lane: string; most: number }): boolean {
    const { owner, lane, most } = args;
    if (sql.one('SELECT 1 AS n FROM made WHERE owner = ? AND lane = ?', owner, lane) !== undefined) return true;
    // it is there, whoever brought it into being
    if (sql.one('SELECT 1 AS n FROM routes WHERE lane = ? AND parked = 1', lane) !== undefined) return true;
    const made = 'SELECT count(*) AS n FROM made WHERE owner = ?';
    if (sql.count(made, owner) >= most) {
        sql.run(
            'DELETE FROM made WHERE owner = ? AND at <= ? AND lane NOT IN (SELECT lane FROM routes)',
            ...[owner, now - NEVER_CAME_MS],
        );
        if (sql.count(made, owner) >= most) return false;
    }
    sql.run('INSERT INTO made (owner, lane, at) VALUES (?, ?, ?)', owner, lane, now);
    return true;
}

export function heartbeat({ sql, now }: At, args: { name: string; lanes: string; ttl_ms: number }): null {
    sql.run('DELETE FROM members WHERE until <= ?', now);
    const query = 'INSERT OR REPLACE INTO members (name, lanes, until) VALUES (?, ?, ?)';
    sql.run(query, args.name, args.lanes, now + args.ttl_ms);
    return null;
}

export function leave({ sql }: At, { name }: { name: string }): null {
    sql.run('DELETE FROM members WHERE name = ?', name);
    return null;
}

export function members({ sql, now }: At): object[] {
    return sql.all('SELECT name, lanes FROM members WHERE until > ? ORDER BY name', now);
}

/** Who asked for what: a bounded list per tenant for what was allowed, and one for what was refused. */

import type { At } from './index';

interface Note {
    tenant: string;
    refused: boolean;
    entry: string;
    keep: number;
}

export function note({ sql, now }: At, { tenant, refused, entry, keep }: Note): object {
    const list = [tenant, refused ? 1 : 0] as const;
    sql.run('INSERT INTO audit (tenant, is_refused, at, entry) VALUES (?, ?, ?, ?)', ...list, now, entry);
    const number = sql.count('SELECT last_insert_rowid() AS n');
    sql.run(
        `DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE tenant = ? AND is_refused = ?
        ORDER BY number DESC LIMIT -1 OFFSET ?)`,
        ...list,
        keep,
    );
    return { at: now, number };
}

export function audit({ sql }: At, { tenant, count }: { tenant: string | null; count: number }): object[] {
    const query = `SELECT number, at, entry FROM audit ${tenant === null ? '' : 'WHERE tenant = ?'}
        ORDER BY number DESC LIMIT ?`;
    return sql.all(query, ...(tenant === null ? [] : [tenant]), count);
}

/** Rates: buckets that all API processes share. A full bucket is nothing to remember. */

import type { At } from './index';

const CLEANED_AT_ONCE = 100;

interface Draw {
    name: string;
    per_second: number;
    burst: number;
    want: number;
}

export function draw({ sql, now }: At, { name, per_second, burst, want }: Draw): object {
    sql.run(
        `DELETE FROM buckets WHERE name IN
        (SELECT name FROM buckets WHERE full_at <= ? ORDER BY full_at LIMIT ${CLEANED_AT_ONCE})`,
        now,
    );
    const known = sql.one<{ left_over: number; at: number }>('SELECT * FROM buckets WHERE name = ?', name);
    const refilled = known === undefined ? burst : known.left_over + (Math.max(0, now - known.at) * per_second) / 1000;
    const left = Math.min(burst, refilled);
    const granted = Math.min(want, Math.floor(left));
    const rest = left - granted;
    const full = now + Math.ceil(((burst - rest) / per_second) * 1000) + 1000;
    const query = 'INSERT OR REPLACE INTO buckets (name, left_over, at, full_at) VALUES (?, ?, ?, ?)';
    sql.run(query, name, rest, now, full);
    return { granted, wait_ms: granted > 0 ? 0 : Math.max(1, Math.ceil(((1 - rest) / per_second) * 1000)) };
}

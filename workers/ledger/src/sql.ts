/** The tables of one object. Nonces, heights and money are TEXT: a number beyond 2^53 does not survive JavaScript. */

export type Value = string | number | ArrayBuffer | null;
export type Row = Record<string, Value>;

export class Sql {
    /** Rows as Cloudflare counts and bills them, those of indexes included. */
    readonly rows = { written: 0, read: 0 };

    constructor(private readonly storage: SqlStorage) {}

    all<T extends Row = Row>(query: string, ...bound: Value[]): T[] {
        const cursor = this.storage.exec<T>(query, ...bound);
        const found = cursor.toArray();
        this.rows.written += cursor.rowsWritten;
        this.rows.read += cursor.rowsRead;
        return found;
    }

    one<T extends Row = Row>(query: string, ...bound: Value[]): T | undefined {
        return this.all<T>(query, ...bound)[0];
    }

    run(query: string, ...bound: Value[]): void {
        this.all(query, ...bound);
    }

    count(query: string, ...bound: Value[]): number {
        return this.one<{ n: number }>(query, ...bound)?.n ?? 0;
    }
}

/**
 * Bring a disk of an older release up to date. A release only ever adds steps at the end, and a step only ever adds
 * tables, indexes and columns with defaults: so an older release may go on beside a newer one.
 */
export function migrate(sql: Sql, steps: readonly string[]): void {
    sql.run('CREATE TABLE IF NOT EXISTS release (step INTEGER PRIMARY KEY) STRICT');
    const done = sql.count('SELECT count(*) AS n FROM release');
    for (let step = done; step < steps.length; step++) {
        for (const statement of (steps[step] ?? '').split(';\n')) {
            if (statement.trim() !== '') sql.run(statement);
        }
        sql.run('INSERT INTO release (step) VALUES (?)', step);
    }
}

export function isMigrated(sql: Sql): boolean {
    return sql.one("SELECT 1 AS n FROM sqlite_master WHERE name = 'release'") !== undefined;
}

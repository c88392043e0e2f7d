/**
 * What all objects share: a batch of calls comes in, each is one transaction without an await inside, each has its own
 * answer. Nothing is kept in memory between two calls: another process may serve the same disk.
 */

import { DurableObject } from 'cloudflare:workers';
import { Sql, isMigrated, migrate } from './sql';

/** Each may do what those before it may. `resident` is the lane object itself: nobody reaches it from outside. */
const ROLES = ['producer', 'owner', 'resident'] as const;
export type Role = (typeof ROLES)[number];

export interface Env {
    HOME: DurableObjectNamespace<LedgerObject>;
    LANE: DurableObjectNamespace<LedgerObject>;
    REGISTRY: DurableObjectNamespace<LedgerObject>;
    AUDIENCE: string;
    INCARNATION: string;
    PRODUCER_SECRETS: string;
    OWNER_SECRETS: string;
}

export interface Call {
    operation: string;
    args: unknown;
    /** Which request it came with: an operator's word is taken once from each. */
    request: string;
}

export type Answer = { ok: unknown } | { error: string; told: Told };
export type Told = Record<string, string | number>;

/** Why a step did nothing: its transaction is rolled back, and the caller hears the word. */
export class Refusal extends Error {
    constructor(
        readonly word: string,
        readonly told: Told = {},
    ) {
        super(word);
    }
}

export const OPERATOR_MS = 120_000;
/** Twice the time for which a request is valid. */

export abstract class LedgerObject extends DurableObject<Env> {
    protected readonly sql: Sql;
    private opened = false;

    constructor(ctx: DurableObjectState, env: Env) {
        super(ctx, env);
        this.sql = new Sql(ctx.storage.sql);
    }

    /** The steps of `migrate`, the first of which makes the tables. */
    protected abstract readonly tables: readonly string[];

    protected abstract step(operation: string, args: unknown, role: Role, request: string, now: number): unknown;

    protected now(): number {
        return Date.now();
    }

    /** Called by the front, and by nobody else: an object has no address of its own. */
    run(role: Role, calls: Call[]): Answer[] {
        if (!this.opened && isMigrated(this.sql)) {
            this.ctx.storage.transactionSync(() => { migrate(this.sql, this.tables); });
            this.opened = true;
        }
        return calls.map((call) => {
            try {
                const step = () => this.step(call.operation, call.args, role, call.request, this.now());
                return { ok: this.ctx.storage.transactionSync(step) ?? null };
            } catch (error) {
                if (error instanceof Refusal) return { error: error.word, told: error.told };
                throw error;
            }
        });
    }

    /** Whether there is anything at all; asking must not leave a database behind. */
    protected exists(): boolean {
        return this.opened || isMigrated(this.sql);
    }

    /** Make the tables, with the first write that needs them: in its transaction, so it may be rolled back with it. */
    protected open(): void {
        if (!this.exists()) migrate(this.sql, this.tables);
    }

    /** An operator's word counts once, however often somebody repeats the request that carried it. */
    protected once(request: string, now: number): void {
        this.sql.run('DELETE FROM requests WHERE at < ?', now - OPERATOR_MS);
        if (this.sql.one('SELECT 1 AS n FROM requests WHERE request = ?', request) !== undefined) {
            throw new Refusal('repeated');
        }
        this.sql.run('INSERT INTO requests (request, at) VALUES (?, ?)', request, now);
    }
}

export const REQUESTS = `
CREATE TABLE requests (request TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID`;

export function allow(role: Role, by: Role): void {
    if (ROLES.indexOf(role) < ROLES.indexOf(by)) throw new Refusal('forbidden');
}

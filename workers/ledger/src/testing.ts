/** The Worker that tests run: the same objects, whose time can be moved and whose waits can be ended. Never deployed. */

import { front } from './front';
import { Home as RealHome } from './home';
import { Lane as RealLane } from './lane/index';
import type { Env, Role } from './object';
import { Registry as RealRegistry } from './registry/index';

const POKES: Readonly<Record<string, string>> = {
    home: 'DELETE FROM homes WHERE id = ?',
    tombstone: 'DELETE FROM tombstones WHERE id = ?',
    lease: 'UPDATE lane SET lease_until = 0',
    schema: 'UPDATE lane SET schema = schema + 1',
    deadlines: 'UPDATE held SET till = 1',
    backlog: 'UPDATE backlog SET at = 1',
    turn: 'UPDATE lane SET turn_until = 1',
};

interface Poke {
    what: string;
    id?: string;
    ms?: number;
}

export class Home extends RealHome {
    private ahead = 0;

    protected override now(): number {
        return Date.now() + this.ahead;
    }

    protected override step(name: string, args: unknown, role: Role, request: string, now: number): unknown {
        if (name !== 'poke') return super.step(name, args, role, request, now);
        const { what, id, ms } = args as Poke;
        if (what === 'clock') this.ahead = ms ?? 0;
        else if (what === 'count') return counts(this.ctx.storage.sql);
        else if (what === 'rows') return { ...this.sql.rows };
        else if (this.exists()) this.sql.run(POKES[what] ?? '', ...(id === undefined ? [] : [id]));
        return null;
    }
}

export class Lane extends RealLane {
    private ahead = 0;

    protected override now(): number {
        return Date.now() + this.ahead;
    }

    protected override step(name: string, args: unknown, role: Role, request: string, now: number): unknown {
        if (name === 'as_resident') {
            const { step, told } = args as { step: string; told: unknown };
            return super.step(step, told, 'resident', request, now);
        }
        if (name !== 'poke') return super.step(name, args, role, request, now);
        const { what, id, ms } = args as Poke;
        if (what === 'clock') this.ahead = ms ?? 0;
        else if (what === 'count') return counts(this.ctx.storage.sql);
        else if (what === 'rows') return { ...this.sql.rows };
        else if (this.exists()) this.sql.run(POKES[what] ?? '', ...(id === undefined ? [] : [id]));
        return null;
    }
}

export class Registry extends RealRegistry {
    protected override step(name: string, args: unknown, role: Role, request: string, now: number): unknown {
        if (name !== 'poke') return super.step(name, args, role, request, now);
        const { history } = args as { history?: string };
        if (!this.exists()) return null;
        if (history !== undefined) {
            this.sql.run('INSERT OR REPLACE INTO history (one, id) VALUES (1, ?)', history);
            return null;
        }
        this.sql.run('UPDATE charges SET look = 1');
        this.sql.run('DELETE FROM ended');
        return null;
    }
}

/** Rows by table, but for the one row that a lane is. */
function counts(sql: SqlStorage): Record<string, number> {
    const tables = sql
        .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'")
        .toArray()
        .filter(({ name }) => name !== 'release' && name !== 'lane' && name !== 'sqlite_sequence');
    return Object.fromEntries(
        tables.map(({ name }) => [name, sql.exec<{ n: number }>(`SELECT count(*) AS n FROM ${name}`).one().n]),
    );
}

export default { fetch: front } satisfies ExportedHandler<Env>;

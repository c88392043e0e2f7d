/** What no lane and no home owns: routes, members, rates, budgets, sessions, audits, the mailbox; each in its objects. */

import { LedgerObject, Refusal, allow, type Role } from '../object';
import type { Sql } from '../sql';
import { audit, note } from './audit';
import { charge, correct, due, history, lookLater, override, rebuilt, restore, uncharge, usage } from './budgets';
import { admit, heartbeat, hello, leave, members, parked, publish, routes, withdraw } from './lanes';
import { advance, buryLetter, dead, delivered, holdTarget, places, revive, revived } from './mailbox';
import { draw } from './rates';
import { endSession, offerCode, openSession, sessions } from './sessions';
import { REGISTRY_TABLES } from './tables';

export interface At {
    sql: Sql;
    now: number;
    role: Role;
    /** The history that this store is in. */
    found: string;
}

interface Operation {
    by: Role;
    run: (at: At, args: never) => unknown;
}

/** Every operation. A new one is a function, and a row here. */
export const REGISTRY_OPERATIONS: Readonly<Record<string, Operation>> = {
    hello: { by: 'producer', run: hello },
    publish: { by: 'producer', run: publish },
    parked: { by: 'producer', run: parked },
    routes: { by: 'producer', run: routes },
    withdraw: { by: 'producer', run: withdraw },
    admit: { by: 'producer', run: admit },
    heartbeat: { by: 'owner', run: heartbeat },
    leave: { by: 'owner', run: leave },
    members: { by: 'producer', run: members },
    draw: { by: 'producer', run: draw },
    note: { by: 'producer', run: note },
    audit: { by: 'producer', run: audit },
    hold_target: { by: 'producer', run: holdTarget },
    places: { by: 'producer', run: places },
    advance: { by: 'producer', run: advance },
    bury_letter: { by: 'producer', run: buryLetter },
    dead: { by: 'producer', run: dead },
    revive: { by: 'producer', run: revive },
    revived: { by: 'producer', run: revived },
    delivered: { by: 'producer', run: delivered },
    offer_code: { by: 'producer', run: offerCode },
    open_session: { by: 'producer', run: openSession },
    sessions: { by: 'producer', run: sessions },
    end_session: { by: 'producer', run: endSession },
    charge: { by: 'producer', run: charge },
    uncharge: { by: 'producer', run: uncharge },
    correct: { by: 'owner', run: correct },
    usage: { by: 'producer', run: usage },
    override: { by: 'producer', run: override },
    due: { by: 'owner', run: due },
    look_later: { by: 'owner', run: lookLater },
    history: { by: 'producer', run: history },
    restore: { by: 'owner', run: restore },
    rebuilt: { by: 'owner', run: rebuilt },
};

export class Registry extends LedgerObject {
    protected readonly tables: readonly string[] = REGISTRY_TABLES;

    protected step(name: string, args: unknown, role: Role, _request: string, now: number): unknown {
        const operation = REGISTRY_OPERATIONS[name];
        if (operation === undefined) throw new Refusal('unknown_operation', { operation: name });
        allow(role, operation.by);
        this.open();
        return operation.run({ sql: this.sql, now, role, found: this.env.INCARNATION }, args as never);
    }
}

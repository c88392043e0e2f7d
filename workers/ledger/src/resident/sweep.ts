/** What is over leaves: claims whose caller never came back, aliases of forgotten keys, events and tombstones. */

import { homeOf } from './router';
import type { Shared } from './settings';
import { laneOf, type Bindings } from './signer';
import { stepOn } from './stubs';

const HOME_OBJECTS = 16;
const SLOTS = 1024;
const SWEEP_AFTER_MS = 24 * 3_600_000;
const AT_ONCE = 100;

interface Stale {
    id: string;
    lane: string;
    life: string;
    born: number;
    alias_of: string | null;
}

/** Home first, then lane: a claim is forgotten only if its lane has no record, and it is still the one that was read. */
export async function sweep(env: Bindings, shared: Shared, now = Date.now()): Promise<number> {
    const home = (number: number, operation: string, args: object): Promise<unknown> =>
        stepOn(env.HOME.get(env.HOME.idFromName(`${shared.prefix}/${number}`)), 'owner', operation, args);
    let gone = 0;
    // a minute's share of the slots: all of them within two hours
    const begin = (Math.floor(now / 60_000) * HOME_OBJECTS) % SLOTS;
    for (let slot = begin; slot < begin + HOME_OBJECTS; slot++) {
        const stale = (await home(slot % HOME_OBJECTS, 'stale', { slot, older_ms: SWEEP_AFTER_MS, skip: 0, count: AT_ONCE })) as Stale[];
        for (const { id, lane, life, born, alias_of } of stale) {
            const known =
                alias_of === null
                    ? await stepOn(laneOf(env, lane), 'owner', 'record', { id, life })
                    : await home(homeOf(alias_of) % HOME_OBJECTS, 'read', { id: alias_of });
            if (known !== null) continue;
            if ((await home(slot % HOME_OBJECTS, 'forget', { id, life, born })) === true) gone += 1;
        }
    }
    for (const pool of shared.pools.values()) {
        for (const lane of pool.lanes) {
            await stepOn(laneOf(env, lane), 'owner', 'clean', { keep_ms: pool.settings.retentionMs });
        }
    }
    return gone;
}

/**
 * The signing script: it has the keys, and no route. The front calls it over a service binding and may do what a producer
 * may; nothing here signs given bytes. A cron pokes lanes that have work, and forgets claims that nobody renewed.
 */

import { WorkerEntrypoint } from 'cloudflare:workers';
import type { Answer, Env, LedgerObject } from '../object';
import type { DurableObjectTxManager, SignerEnv } from './lane';
import { readSettings, type Shared } from './settings';
import { answerOf, stepOn } from './stubs';
import { sweep } from './sweep';

export { Home } from '../home';
export { Registry } from '../registry/index';
export { DurableObjectTxManager } from './lane';

export type Bindings = Omit<Env, 'LANE'> & SignerEnv & { LANE: DurableObjectNamespace<DurableObjectTxManager> };

export interface Wanted {
    object: 'home' | 'lane' | 'registry';
    name: string;
    operation: string;
    args: unknown;
}

/** What the front may ask: steps of a producer, and to be told when an intent ended. */
export class Ledger extends WorkerEntrypoint<Bindings> {
    async call({ object, name, operation, args }: Wanted): Promise<Answer> {
        try {
            return await answerOf(stubOf(this.env, object, name), 'producer', operation, args);
        } catch (error) {
            // perhaps nothing was written, perhaps all of it: every call may be repeated
            const why = error instanceof Error ? error.message.slice(0, 200) : 'unknown';
            return { error: 'unavailable', told: { why } };
        }
    }

    async settled(lane: string, id: string, ms: number): Promise<void> {
        await laneOf(this.env, lane).settled(id, ms);
    }

    /** Bring the lanes of the settings into being. Answers how many there are. */
    async open(): Promise<number> {
        return openLanes(this.env, readSettings(this.env.SETTINGS));
    }
}

function stubOf(env: Bindings, object: Wanted['object'], name: string): DurableObjectStub<LedgerObject> {
    const { prefix } = readSettings(env.SETTINGS);
    const namespaces = { home: env.HOME, registry: env.REGISTRY, lane: env.LANE as unknown as Env['LANE'] };
    const namespace = namespaces[object];
    return namespace.get(namespace.idFromName(`${prefix}/${name}`));
}

export function laneOf(env: Bindings, lane: string): DurableObjectStub<DurableObjectTxManager> {
    const { prefix } = readSettings(env.SETTINGS);
    return env.LANE.get(env.LANE.idFromName(`${prefix}/${lane}`));
}

export async function openLanes(env: Bindings, shared: Shared): Promise<number> {
    const registry = stubOf(env, 'registry', 'lanes');
    let opened = 0;
    for (const pool of shared.pools.values()) {
        for (const id of pool.lanes) {
            const spec = { id, pool: pool.name, weight: 1, queue_limit: pool.queueLimit, info: '{}', keyless: false, resident: true };
            const answer = await answerOf(laneOf(env, id), 'resident', 'register', spec);
            if ('error' in answer) continue; // closed, or another worker's: its own word stands
            const { pool: named, weight, state, revision } = answer.ok as { pool: string; weight: number; state: string; revision: number };
            const route = { lane: id, pool: named, weight, state, revision };
            await stepOn(registry, 'owner', 'publish', route);
            opened += 1;
        }
    }
    return opened;
}

export default {
    fetch: () => new Response(null, { status: 404 }),
    async scheduled(_, env) {
        const shared = readSettings(env.SETTINGS);
        await openLanes(env, shared);
        for (const pool of shared.pools.values()) {
            for (const lane of pool.lanes) await laneOf(env, lane).poke();
        }
        await sweep(env, shared);
    },
} satisfies ExportedHandler<Bindings>;

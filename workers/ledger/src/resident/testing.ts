/**
 * The signing script that tests run: the same objects, with the ledger's door to read them by, and a ledger that can be
 * silent for a while: it does what it is told and does not say so. Never deployed.
 */

import { front } from '../front';
import type { Answer, Env } from '../object';
import { Ledger as RealLedger, type Wanted } from './signer';

export { DurableObjectTxManager, Home, Registry } from './signer';

let silentUntil = 0;

export class Ledger extends RealLedger {
    override async call(wanted: Wanted): Promise<Answer> {
        const answer = await super.call(wanted);
        return Date.now() < silentUntil ? { error: 'unavailable', told: { why: 'silent' } } : answer;
    }
}

export default {
    fetch(request, env) {
        const { pathname, searchParams } = new URL(request.url);
        if (pathname !== '/testing/silent') return front(request, env);
        silentUntil = Date.now() + parseInt(searchParams.get('ms') ?? '0', 10);
        return new Response(null, { status: 204 });
    },
} satisfies ExportedHandler<Env>;

/** The signing script that tests run: the same objects, with the ledger's door to read them by. Never deployed. */

import { front } from '../front';
import type { Env } from '../object';

export { DurableObjectTxManager, Home, Ledger, Registry } from './signer';

export default { fetch: front } satisfies ExportedHandler<Env>;

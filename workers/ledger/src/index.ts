/** The ledger of txmanager as a Worker. README.md says how to deploy it. */

import { front } from './front';
import type { Env } from './object';

export { Home } from './home';
export { Lane } from './lane/index';
export { Registry } from './registry/index';

// A module Worker is what its default export is.
export default { fetch: front } satisfies ExportedHandler<Env>;

/** Hosts the promises on Node. The control server's address is in TXMANAGER_WORLD. */
import { beforeAll, expect, test } from 'vitest';
import { promises } from './promises.js';
import { World } from './world.js';

let world: World;

beforeAll(async () => {
    world = await World.open(process.env['TXMANAGER_WORLD'] ?? '');
});

test.each(Object.keys(promises))('%s', async (name) => {
    await expect(promises[name]?.(world)).resolves.toBeUndefined();
});

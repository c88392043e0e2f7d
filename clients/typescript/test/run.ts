/** Runs promises on any runtime and tells what became of each: `{name: 'kept'}` or the error's words. */
import { promises } from './promises.js';
import { World } from './world.js';

export async function run(control: string, names: readonly string[]): Promise<Record<string, string>> {
    const world = await World.open(control);
    const told: Record<string, string> = {};
    for (const name of names) {
        try {
            const promise = promises[name];
            if (promise === undefined) throw new Error('no such promise');
            await promise(world);
            told[name] = 'kept';
        } catch (error) {
            told[name] = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
        }
    }
    return told;
}

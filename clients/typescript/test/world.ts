/** The other side of the promises: the real stack, driven through the control server that the Python tests run. */
import { TxManager, type TxManagerOptions } from '../src/index.js';

export interface Places {
    readonly direct: string;
    readonly front: string;
    readonly leaky: string;
    readonly account: string;
    readonly secret: string;
}

export class World {
    readonly #control: string;
    readonly places: Places;

    private constructor(control: string, places: Places) {
        this.#control = control;
        this.places = places;
    }

    static async open(control: string): Promise<World> {
        return new World(control, (await post(control, 'places', {})) as Places);
    }

    /** Ask for something to go wrong, or for what is true. */
    async ask(question: string, how: Record<string, unknown> = {}): Promise<unknown> {
        return await post(this.#control, question, how);
    }

    async answers(): Promise<Record<string, number>> {
        return (await this.ask('answers')) as Record<string, number>;
    }

    async balance(accountId: string): Promise<bigint> {
        return BigInt((await this.ask('balance', { account_id: accountId })) as string);
    }

    manager(place: 'direct' | 'front' | 'leaky' = 'direct', by = 'all', options: Partial<TxManagerOptions> = {}): TxManager {
        return new TxManager({ baseUrl: this.places[place], token: `token-${by}`, pool: 'main', ...options });
    }
}

async function post(control: string, question: string, how: Record<string, unknown>): Promise<unknown> {
    const reply = await fetch(`${control}/${question}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(how),
    });
    const told: unknown = await reply.json();
    if (reply.status !== 200) throw new Error(`${question}: ${JSON.stringify(told)}`);
    return told;
}

/** Pauses and limits that a caller's signal ends at once, leaving no timer and no listener behind. */
import { AbortedError } from './errors.js';

/** Throws `AbortedError` when the signal has fired. */
export function check(signal: AbortSignal | undefined): void {
    if (signal?.aborted) throw new AbortedError(signal.reason);
}

export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
    check(signal);
    await new Promise<void>((resolve) => {
        const end = () => {
            clearTimeout(timer);
            signal?.removeEventListener('abort', end);
            resolve();
        };
        const timer = setTimeout(end, ms);
        signal?.addEventListener('abort', end);
    });
    check(signal);
}

/** A signal that fires when the time is over or the caller's signal does. Call `end` when the work is done. */
export class Limit {
    readonly #controller = new AbortController();
    readonly #outer: AbortSignal | undefined;
    readonly #timer: ReturnType<typeof setTimeout>;
    readonly #stop = (): void => {
        this.#controller.abort(this.#outer?.reason);
    };

    constructor(ms: number, outer: AbortSignal | undefined) {
        check(outer);
        this.#outer = outer;
        this.#timer = setTimeout(() => {
            this.#controller.abort(new Error(`timed out after ${ms} ms`));
        }, ms);
        outer?.addEventListener('abort', this.#stop);
    }

    get signal(): AbortSignal {
        return this.#controller.signal;
    }

    end(): void {
        clearTimeout(this.#timer);
        this.#outer?.removeEventListener('abort', this.#stop);
    }
}

/** Everything that the loop of a resident lane touches: a store, nodes, a clock. Each effect is one call that may fail. */

import type { JsonObject } from '../near/exact';
import type { Policy } from '../near/policy';
import type { Signer } from '../near/transaction';
import type { Seals } from './seal';
import type { Ask } from './nodes';

export interface Settings {
    /** `direct`: one identified node, not a balancer. */
    nodes: readonly { url: string; direct: boolean }[];
    policy: Policy;
    validityBlocks: bigint;
    epochBlocks: bigint;
    includeWithinMs: number;
    holdAfterMs: number;
    /** How long final records answer retries. */
    retentionMs: number;
    /** yoctoNEAR that the account must keep, or nothing is signed. */
    reserve: bigint;
    /** yoctoNEAR that a unit of gas is bought for. */
    gasPrice: bigint;
}

/** The store refused a step: nothing of it was written. */
export class StepRefused extends Error {
    constructor(
        readonly word: string,
        readonly told: Readonly<Record<string, string | number>> = {},
    ) {
        super(word);
    }
}

export interface World {
    lane: string;
    settings: Settings;
    signer: Signer;
    seals: Seals;
    /** One step on the lane. */
    step: (operation: string, args: object) => Promise<unknown>;
    /** One step on a home. */
    home: (number: number, operation: string, args: object) => Promise<unknown>;
    ask: Ask;
    now: () => number;
    sleep: (ms: number) => Promise<void>;
    /** Random, for a fence that nobody else has. */
    token: () => string;
    /** Whether this invocation has used up its time or its requests. */
    spent: () => boolean;
    log: (what: string, more: JsonObject) => void;
}

/**
 * What to do next with the one intent that a resident lane has in flight: a pure, total function from facts to one step. No
 * arm guesses: only a hash seen final settles, only a proof of death lets it end without an effect, and nothing is ever
 * signed again. What expired, was overtaken or is refused for good is held: an operator decides.
 */

import type { Verdict } from '../near/verdicts';

export interface Seen {
    /** The record: in flight, or held until an operator decides. */
    held: boolean;
    cancelled: boolean;
    /** An operator's word on a held intent. */
    verb: string;
    /** Where its bytes are, by the nodes that were asked. */
    where: 'final' | 'included' | 'unknown';
    /** Nodes that must agree before `failed`: they contradict each other, or too few of them answered. */
    doubt: 'conflict' | 'missing' | null;
    /** A fresh proof that the bytes can never land. */
    proof: string | null;
    /** A proof was asked for, and there is none. */
    unproven: boolean;
    /** The newest word of the nodes to these bytes. */
    verdict: Verdict | null;
    /** Since they were last sent by this loop; null: it never sent them. */
    sentAgoMs: number | null;
    ageMs: number;
}

export interface Patience {
    includeWithinMs: number;
    holdAfterMs: number;
}

export type Step =
    | { do: 'settle' }
    /** End without an effect: the proof goes with it. */
    | { do: 'end'; as: 'cancelled' | 'failed' }
    | { do: 'wait' }
    /** The same bytes, to a node that validates them. */
    | { do: 'send' }
    | { do: 'prove' }
    | { do: 'hold'; reason: string }
    | { do: 'pause' }
    | { do: 'quarantine' };

/** How often, a time for inclusion apart, nodes may refuse before that stops the lane or holds the intent. */
const PATIENCES = 4;

export function decide(seen: Seen, patience: Patience): Step {
    const old = seen.ageMs >= patience.holdAfterMs;
    if (seen.where === 'final' && seen.doubt === null) return { do: 'settle' };
    if (seen.doubt === 'conflict' && !seen.held) return { do: 'hold', reason: 'nodes_disagree' };
    if (seen.doubt === 'missing' && !seen.held && old) return { do: 'hold', reason: 'not_confirmed' };
    if (seen.where !== 'unknown') return { do: 'wait' };
    if (seen.proof !== null) return dead(seen, seen.proof);
    if (old && !seen.held) return seen.unproven ? { do: 'hold', reason: 'no_proof' } : { do: 'prove' };
    const late = seen.ageMs >= PATIENCES * patience.includeWithinMs;
    switch (seen.verdict) {
        case 'insufficient_funds':
            if (late && !seen.held) return { do: 'pause' };
            break;
        case 'key_missing':
            return { do: 'quarantine' };
        case 'nonce_too_low':
        case 'expired':
            if (!seen.unproven) return { do: 'prove' };
            // nodes go on refusing, and nobody can prove why: a person decides, and it settles by itself if it landed
            return late && !seen.held ? { do: 'hold', reason: seen.verdict === 'expired' ? 'expired' : 'overtaken' } : { do: 'wait' };
        case 'permanent':
            if (!seen.held) return { do: 'hold', reason: 'rejected' };
            break;
        default:
    }
    if (seen.held && (seen.cancelled || seen.verb === 'fail') && !seen.unproven) return { do: 'prove' };
    if (seen.held && seen.verb !== 'track') return { do: 'wait' };
    const unsent = seen.sentAgoMs === null || seen.sentAgoMs < 0 || seen.sentAgoMs >= patience.includeWithinMs;
    return { do: unsent ? 'send' : 'wait' };
}

function dead(seen: Seen, cause: string): Step {
    if (seen.cancelled) return { do: 'end', as: 'cancelled' };
    if (seen.verb === 'fail') return { do: 'end', as: 'failed' };
    return seen.held ? { do: 'wait' } : { do: 'hold', reason: cause };
}

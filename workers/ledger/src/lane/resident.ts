/** What only a lane that owns itself is asked: every start of its loop takes it over at once, with a fence of its own. */

import { SHELVED_MS } from './end';
import { RESIDENT, pending, type Fenced } from './own';
import { checkFence, view, type Step } from './row';

/** No lease to wait for: the fence alone decides. A loop that another one overtook is refused at its next step. */
export function adopt({ lane, now }: Step, { token, lease_ms }: { token: string; lease_ms: number }): object {
    if (lane.state === 'closed') return { word: 'closed' };
    if (lane.resident !== 1) return { word: 'external' };
    if (lane.token !== token) lane.epoch += 1;
    lane.owner = RESIDENT;
    lane.token = token;
    lane.lease_until = now + lease_ms;
    return { word: 'adopted', epoch: lane.epoch, token };
}

/** Everything that a turn of the loop begins with. */
export function look(step: Step, { fence }: Fenced): object {
    checkFence(step, fence);
    return { lane: view(step), pending: pending(step) };
}

/**
 * When the lane is to be woken next, by the store's clock; null: not at all. Decided in one step with what came meanwhile:
 * an append in between is seen here, or wakes the lane itself.
 */
export function rest(step: Step, { fence, after_ms }: Fenced & { after_ms: number | null }): number | null {
    const { sql, lane, now } = step;
    checkFence(step, fence);
    if (after_ms !== null) return now + after_ms;
    const works = lane.state === 'active' || lane.state === 'draining';
    if ((works && lane.queued > 0) || lane.unfinished > 0) return now;
    if (lane.unretired === 0) return null;
    // what cannot go home is tried again in an hour, and must not keep the lane awake until then
    const query = 'SELECT count(*) AS n, min(at) AS at FROM shelf WHERE at > ?';
    const shelf = sql.one<{ n: number; at: number | null }>(query, now - SHELVED_MS);
    return shelf === undefined || lane.unretired > shelf.n ? now : (shelf.at ?? now) + SHELVED_MS;
}

export function count(step: Step, { fence, send_ms, invalid_nonce }: Fenced & { send_ms: number; invalid_nonce: boolean }): null {
    checkFence(step, fence);
    step.lane.sends += 1;
    step.lane.send_ms += send_ms;
    if (invalid_nonce) step.lane.invalid_nonces += 1;
    return null;
}

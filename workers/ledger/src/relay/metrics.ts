/** What operators watch, from the counters that each lane stores: they survive every restart. */

import type { LaneRow } from './records';

const SERIES: [name: string, type: string, help: string, read: (lane: LaneRow) => number][] = [
    ['txmanager_lane_depth', 'gauge', 'Intents queued, in flight and held.', (lane) => lane.depth],
    ['txmanager_lane_oldest_seconds', 'gauge', 'Age of the oldest of them.', (lane) => lane.oldest_ms / 1000],
    ['txmanager_lane_lease_changes_total', 'counter', 'Starts of the loop that owns the lane.', (lane) => lane.epoch],
    ['txmanager_lane_invalid_nonce_total', 'counter', 'Sends that nodes refused for their nonce.', (lane) => lane.invalid_nonces],
    ['txmanager_lane_send_seconds_count', 'counter', 'Sends.', (lane) => lane.sends],
    ['txmanager_lane_send_seconds_sum', 'counter', 'Time that nodes took to answer them.', (lane) => lane.send_ms / 1000],
    ['txmanager_lane_active', 'gauge', '1 while the lane takes and signs.', (lane) => (lane.state === 'active' ? 1 : 0)],
];

export function metrics(lanes: readonly LaneRow[]): Response {
    const lines = SERIES.flatMap(([name, type, help, read]) => [
        `# HELP ${name} ${help}`,
        `# TYPE ${name} ${type}`,
        ...lanes.map((lane) => `${name}{lane="${lane.id}",pool="${lane.pool}"} ${read(lane)}`),
    ]);
    return new Response(`${lines.join('\n')}\n`, { headers: { 'content-type': 'text/plain; version=0.0.4' } });
}

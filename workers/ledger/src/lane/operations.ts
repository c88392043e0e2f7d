/**
 * Every operation of a lane: who may ask for it, what it does, and what it says of a lane that is not there. A new one is
 * a function of a step, and a row here.
 */

import { Refusal, type Role } from '../object';
import { append, cancel, reseal, resolve, roomOf } from './accept';
import { recordAttempts } from './attempts';
import { acknowledge, archive, backlog, bury, clean, settle, shelve, shelved, unarchived, unretired } from './end';
import { browse, check, events, forget, record, register, setLane } from './manage';
import { book, checked, expire, reclaim, recycle, reserve, turn } from './numbers';
import {
    answer,
    baseline,
    broke,
    fill,
    hold,
    keep,
    kept,
    lease,
    park,
    pending,
    release,
    renew,
    setAside,
    take,
    unfinished,
    unowned,
    vouch,
} from './own';
import { adopt, count, look, rest } from './resident';
import { view, type Step } from './row';

export interface Operation {
    by: Role;
    run: (step: Step, args: never) => unknown;
    absent: (args: never) => unknown;
    /** An operator's word: taken once from each request. */
    once?: true;
}

function fenced(): never {
    throw unowned();
}

function notFound(): never {
    throw new Refusal('not_found');
}

const says = (value: unknown) => () => value;

export const LANE_OPERATIONS: Readonly<Record<string, Operation>> = {
    // producers
    append: { by: 'producer', run: append, absent: ({ entries }: { entries: [] }) => entries.map(() => ({ word: 'closed' })) },
    record: { by: 'producer', run: record, absent: says(null) },
    cancel: { by: 'producer', run: cancel, absent: notFound },
    resolve: { by: 'producer', run: resolve, absent: notFound, once: true },
    reseal: { by: 'producer', run: reseal, absent: notFound, once: true },
    room: { by: 'producer', run: (step, { owner }: { owner: string }) => roomOf(step, owner), absent: says({ count: 0, size: 0 }) },
    // owners
    lease: { by: 'owner', run: lease, absent: says({ word: 'unknown' }) },
    renew: { by: 'owner', run: renew, absent: fenced },
    park: { by: 'owner', run: park, absent: fenced },
    release: { by: 'owner', run: release, absent: says(false) },
    baseline: { by: 'owner', run: baseline, absent: fenced },
    vouch: { by: 'owner', run: vouch, absent: fenced },
    take: { by: 'owner', run: take, absent: fenced },
    unfinished: { by: 'owner', run: unfinished, absent: fenced },
    record_attempts: { by: 'owner', run: recordAttempts, absent: fenced },
    settle: { by: 'owner', run: settle, absent: fenced },
    hold: { by: 'owner', run: hold, absent: fenced },
    set_aside: { by: 'owner', run: setAside, absent: fenced },
    broke: { by: 'owner', run: broke, absent: fenced },
    answer: { by: 'owner', run: answer, absent: fenced },
    fill: { by: 'owner', run: fill, absent: fenced },
    keep: { by: 'owner', run: keep, absent: fenced },
    kept: { by: 'producer', run: kept, absent: says([]) },
    // lanes that own themselves
    adopt: { by: 'resident', run: adopt, absent: says({ word: 'unknown' }) },
    look: { by: 'resident', run: look, absent: fenced },
    rest: { by: 'resident', run: rest, absent: fenced },
    count: { by: 'resident', run: count, absent: fenced },
    // final records
    unretired: { by: 'owner', run: unretired, absent: says([]) },
    bury: { by: 'owner', run: bury, absent: says(0) },
    shelve: { by: 'owner', run: shelve, absent: notFound },
    shelved: { by: 'producer', run: shelved, absent: notFound },
    archive: { by: 'owner', run: archive, absent: notFound },
    unarchived: { by: 'owner', run: unarchived, absent: says([]) },
    acknowledge: { by: 'owner', run: acknowledge, absent: says(0) },
    backlog: { by: 'producer', run: backlog, absent: says({ gone: [], lost: 0 }) },
    clean: { by: 'owner', run: clean, absent: says(false) },
    // everybody
    register: { by: 'producer', run: register, absent: notFound },
    set_lane: { by: 'producer', run: setLane, absent: notFound, once: true },
    forget: { by: 'producer', run: forget, absent: says(null), once: true },
    lane: { by: 'producer', run: view, absent: says(null) },
    browse: { by: 'producer', run: browse, absent: says([]) },
    events: { by: 'producer', run: events, absent: says([]) },
    pending: { by: 'producer', run: pending, absent: says([]) },
    check: { by: 'producer', run: check, absent: says(false) },
    // keyless lanes
    reserve: { by: 'producer', run: reserve, absent: notFound },
    turn: { by: 'producer', run: turn, absent: notFound },
    recycle: { by: 'producer', run: recycle, absent: notFound },
    expire: { by: 'producer', run: expire, absent: notFound },
    reclaim: { by: 'owner', run: reclaim, absent: fenced },
    book: { by: 'producer', run: book, absent: notFound },
    checked: { by: 'producer', run: checked, absent: notFound },
};

/**
 * Budgets of one place: charged before an intent is accepted, corrected when it ended, each once by the intent's life.
 * Units stay below 2^53, which a number holds exactly.
 */

import type { Row } from '../sql';
import type { At } from './index';

const APPEND_WITHIN_MS = 60_000;
const LOOK_AFTER_MS = 180_000;
const MOST_UNITS = Number.MAX_SAFE_INTEGER;
const CLEANED_AT_ONCE = 100;

interface Book extends Row {
    name: string;
    open: number;
    override: number | null;
    per_ms: number;
    bucket_ms: number;
    expires: number | null;
}

interface Open extends Row {
    budget: string;
    life: string;
    units: number;
    turn: number;
    born: number;
    id: string;
}

interface Span {
    per_ms: number;
    bucket_ms: number;
}

interface Charge {
    id: string;
    life: string;
    born: number;
    units: number;
    budget: Span & { name: string; limit: number };
}

export function charge(at: At, args: Charge): object {
    const { sql, now } = at;
    const { budget, life } = args;
    clean(at);
    const book = bookOf(at, budget.name);
    const lost = isMoved(at);
    if (sql.one('SELECT 1 AS n FROM ended WHERE budget = ? AND life = ? AND until > ?', budget.name, life, now)) {
        return { word: 'ended' };
    }
    const entry = openCharge(at, budget.name, life);
    if (entry === undefined) {
        if (args.born < now - APPEND_WITHIN_MS) return { word: 'stale' };
        if (args.born > now + APPEND_WITHIN_MS) return { word: 'ahead' };
        if (lost) return { word: 'moved', usage: usageOf(at, budget.name) };
        const oldest = oldestBucket(budget, now);
        const costs = sql.count(
            'SELECT coalesce(sum(units), 0) AS n FROM costs WHERE budget = ? AND bucket >= ?',
            ...[budget.name, oldest],
        );
        if (book.open + costs + args.units > (book.override ?? budget.limit)) {
            return { word: 'exhausted', usage: usageOf(at, budget.name) };
        }
        sql.run('DELETE FROM costs WHERE budget = ? AND bucket < ?', budget.name, oldest);
    }
    if (!lost) believe(at, at.found);
    const turn = (entry?.turn ?? 0) + 1;
    const units = entry?.units ?? args.units;
    write(at, { ...book, per_ms: budget.per_ms, bucket_ms: budget.bucket_ms, open: book.open + (entry === undefined ? units : 0), expires: null });
    putCharge(at, { budget: budget.name, life, units, turn, born: args.born, id: args.id });
    return { word: 'charged', turn };
}

/** Take back a charge whose intent was not accepted, if nobody charged it again. */
export function uncharge(at: At, { name, life, turn }: { name: string; life: string; turn: number }): boolean {
    const entry = openCharge(at, name, life);
    if (entry?.turn !== turn) return false;
    takeOut(at, entry);
    return true;
}

interface Correction extends Span {
    name: string;
    life: string;
    units: number;
    at: number;
}

/** Replace a charge by what its intent cost; once, by its life. */
export function correct(at: At, args: Correction): boolean {
    const { sql, now } = at;
    const entry = openCharge(at, args.name, args.life);
    if (entry === undefined) return false;
    const bucket = Math.floor(args.at / args.bucket_ms);
    if (args.units > 0 && bucket >= oldestBucket(args, now)) {
        const known = costOf(at, args.name, bucket);
        putCost(at, args.name, bucket, Math.min(MOST_UNITS, known + args.units));
    }
    const query = 'INSERT OR REPLACE INTO ended (budget, life, until) VALUES (?, ?, ?)';
    sql.run(query, args.name, args.life, now + LOOK_AFTER_MS);
    takeOut(at, entry);
    return true;
}

export function usage(at: At, { name }: { name: string }): object {
    return usageOf(at, name);
}

/** An operator's limit in place of the configured one; two who raise a budget at once must not undo each other. */
export function override(at: At, args: { name: string; limit: number | null; expected: number | null }): boolean {
    const book = bookOf(at, args.name);
    if (book.override !== args.limit && book.override !== args.expected) return false;
    rest(at, { ...book, override: args.limit });
    return true;
}

/** Charges that somebody should look at. */
export function due(at: At, { count }: { count: number }): object[] {
    clean(at);
    return at.sql.all('SELECT * FROM charges WHERE look <= ? ORDER BY look LIMIT ?', at.now, count);
}

export function lookLater(at: At, args: { name: string; life: string; after_ms: number }): null {
    const query = 'UPDATE charges SET look = ? WHERE budget = ? AND life = ?';
    at.sql.run(query, at.now + args.after_ms, args.name, args.life);
    return null;
}

/** Which history this place was last written in, and which one there is now. */
export function history(at: At): object {
    return { stored: storedHistory(at) ?? at.found, found: at.found };
}

interface Restored extends Span {
    name: string;
    spent: [bucket: number, units: number][];
    open: Omit<Open, 'budget' | 'turn'>[];
}

/** Put back what the records say; nothing that stands is lowered. */
export function restore(at: At, args: Restored): null {
    const book = bookOf(at, args.name);
    for (const [bucket, units] of args.spent) {
        if (costOf(at, args.name, bucket) < units) putCost(at, args.name, bucket, units);
    }
    let { open } = book;
    for (const one of args.open as Open[]) {
        if (openCharge(at, args.name, one.life) !== undefined) continue;
        open += one.units;
        putCharge(at, { ...one, budget: args.name, turn: 1 });
    }
    rest(at, { ...book, open, per_ms: args.per_ms, bucket_ms: args.bucket_ms });
    return null;
}

/** Let this place be charged again, in the history that it was rebuilt in. */
export function rebuilt(at: At, { found }: { found: string }): boolean {
    if (found !== at.found) return false;
    believe(at, found);
    return true;
}

function bookOf({ sql, now }: At, name: string): Book {
    const book = sql.one<Book>('SELECT * FROM budgets WHERE name = ?', name);
    if (book !== undefined && (book.expires === null || book.expires > now)) return book;
    if (book !== undefined) sql.run('DELETE FROM costs WHERE budget = ?', name);
    return { name, open: 0, override: null, per_ms: 0, bucket_ms: 0, expires: null };
}

function write({ sql }: At, book: Book): void {
    sql.run(
        'INSERT OR REPLACE INTO budgets (name, open, override, per_ms, bucket_ms, expires) VALUES (?, ?, ?, ?, ?, ?)',
        ...[book.name, book.open, book.override, book.per_ms, book.bucket_ms, book.expires],
    );
}

/** A budget that nothing is charged to is forgotten once it has no cost left. */
function rest(at: At, book: Book): void {
    const idle = book.per_ms > 0 && book.override === null && book.open <= 0;
    write(at, { ...book, expires: idle ? at.now + book.per_ms + book.bucket_ms : null });
}

function openCharge({ sql }: At, name: string, life: string): Open | undefined {
    return sql.one<Open>('SELECT * FROM charges WHERE budget = ? AND life = ?', name, life);
}

function putCharge({ sql, now }: At, one: Open): void {
    sql.run(
        'INSERT OR REPLACE INTO charges (budget, life, units, turn, born, id, look) VALUES (?, ?, ?, ?, ?, ?, ?)',
        ...[one.budget, one.life, one.units, one.turn, one.born, one.id, now + LOOK_AFTER_MS],
    );
}

function takeOut(at: At, entry: Open): void {
    at.sql.run('DELETE FROM charges WHERE budget = ? AND life = ?', entry.budget, entry.life);
    const book = bookOf(at, entry.budget);
    rest(at, { ...book, open: book.open - entry.units });
}

function costOf({ sql }: At, name: string, bucket: number): number {
    return sql.count('SELECT units AS n FROM costs WHERE budget = ? AND bucket = ?', name, bucket);
}

function putCost({ sql }: At, name: string, bucket: number, units: number): void {
    sql.run('INSERT OR REPLACE INTO costs (budget, bucket, units) VALUES (?, ?, ?)', name, bucket, units);
}

function usageOf(at: At, name: string): object {
    const { open, override } = bookOf(at, name);
    const spent = at.sql.all<{ bucket: number; units: number }>('SELECT bucket, units FROM costs WHERE budget = ?', name);
    return { open, override, moved: isMoved(at), now: at.now, spent: spent.map((row) => [row.bucket, row.units]) };
}

function oldestBucket({ per_ms, bucket_ms }: Span, now: number): number {
    return per_ms === 0 ? 0 : Math.floor((now - per_ms) / bucket_ms);
}

function storedHistory({ sql }: At): string | undefined {
    return sql.one<{ id: string }>('SELECT id FROM history')?.id;
}

/** The store may have lost charges: it was last written in another history. */
function isMoved(at: At): boolean {
    const stored = storedHistory(at);
    return stored !== undefined && stored !== at.found;
}

function believe(at: At, found: string): void {
    if (storedHistory(at) !== found) at.sql.run('INSERT OR REPLACE INTO history (one, id) VALUES (1, ?)', found);
}

function clean({ sql, now }: At): void {
    sql.run(`DELETE FROM ended WHERE (budget, life) IN
        (SELECT budget, life FROM ended WHERE until <= ? ORDER BY until LIMIT ${CLEANED_AT_ONCE})`, now);
    const over = `SELECT name FROM budgets WHERE expires <= ? ORDER BY expires LIMIT ${CLEANED_AT_ONCE}`;
    for (const { name } of sql.all<{ name: string }>(over, now)) {
        sql.run('DELETE FROM costs WHERE budget = ?', name);
        sql.run('DELETE FROM budgets WHERE name = ?', name);
    }
}


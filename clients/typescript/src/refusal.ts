/** From an answer that says no to the error class of its problem code. */
import { BadAnswerError, TxManagerError } from './errors.js';
import { PROBLEMS } from './generated/problems.js';
import { decode } from './json.js';
import type { Problem } from './types.js';

/** What is worth another try: nothing else is ever repeated. */
const AGAIN: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

export function isWorthRetrying(status: number): boolean {
    return AGAIN.has(status);
}

/** Whole seconds of a Retry-After header; anything else counts as none. */
export function retryAfterS(header: string | null): number | undefined {
    return header !== null && /^\d{1,6}$/.test(header) ? parseInt(header, 10) : undefined;
}

export function refusal(status: number, body: string, retryAfter?: number): TxManagerError {
    const problem = readProblem(body);
    const code = typeof problem.code === 'string' ? problem.code : '';
    if (code === '' && !isWorthRetrying(status)) return new BadAnswerError(`status ${status}, and no problem of txmanager`);
    const kind = Object.hasOwn(PROBLEMS, code) ? PROBLEMS[code as keyof typeof PROBLEMS] : TxManagerError;
    const words = [status, code, problem.detail, problem.kept, problem.do].filter((word) => word !== undefined && word !== '');
    return new kind(words.join(' '), {
        code: code || `http_${status}`,
        retryable: isWorthRetrying(status),
        status,
        problem,
        retryAfterS: retryAfter,
    });
}

function readProblem(body: string): Partial<Problem> {
    try {
        const told = decode(body);
        return typeof told === 'object' && told !== null ? told : {};
    } catch {
        return {};
    }
}

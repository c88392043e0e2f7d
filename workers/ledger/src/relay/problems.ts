/** Every error as RFC 9457 problem+json, with the codes and words of the Python API: one client fits both. */

const NOTHING = 'Nothing was accepted or changed.';
const LATER = 'Retry the same request, with the same Idempotency-Key, after Retry-After seconds.';

interface Line {
    status: number;
    title: string;
    do: string;
    kept?: string;
}

const LINES = {
    invalid_input: { status: 422, title: 'Invalid request', do: 'Correct the named field and send the request again.' },
    invalid_idempotency_key: { status: 400, title: 'Invalid Idempotency-Key', do: 'Send 1 to 255 visible ASCII characters, such as a UUID.' },
    policy_refused: { status: 422, title: "Refused by the pool's policy", do: "Ask for less, or ask the operator to widen the pool's policy." },
    own_account_refused: {
        status: 403,
        title: "Acts on the pool's own account",
        do: "Ask the operator: the pool's policy must name it in own_account.",
    },
    idempotency_key_reused: {
        status: 422,
        title: 'Idempotency-Key used for another request',
        do: 'Use a new key for a new request, or the first payload to see its result.',
        kept: 'The first request with this key stands unchanged; this one was not accepted.',
    },
    not_found: { status: 404, title: 'Not found', do: "Check the key, the pool and the token's tenant." },
    not_allowed: { status: 409, title: 'Not possible in this state', do: 'Read the current state and decide again.' },
    queue_full: { status: 429, title: 'Queue full', do: LATER },
    token_queue_full: { status: 429, title: 'Too much of this token waits', do: LATER },
    stale_claim: {
        status: 503,
        title: 'Not settled on a lane',
        do: LATER,
        kept: 'At most the claim of the key, which the same key takes up again.',
    },
    no_lane: { status: 503, title: 'No active lane', do: `${LATER} The operator starts a worker or resumes a lane.` },
    unavailable: {
        status: 503,
        title: 'Ledger away',
        do: LATER,
        kept: 'Nothing, or an acceptance we could not learn of: the same key finds it and never starts a second one.',
    },
    malformed_request: { status: 400, title: 'Malformed request', do: 'Send one JSON object of the documented shape (/docs).' },
    missing_idempotency_key: {
        status: 400,
        title: 'Missing Idempotency-Key',
        do: 'Send the header Idempotency-Key: a new UUID per request, the same on retries.',
    },
    unauthorized: { status: 401, title: 'Unauthorized', do: 'Send the header Authorization: Bearer with a valid token.' },
    forbidden: { status: 403, title: 'Forbidden', do: 'Use a token that allows it, or ask the operator to widen this one.' },
    no_route: { status: 404, title: 'No such path', do: 'See /docs for the paths there are.' },
    method_not_allowed: { status: 405, title: 'Method not allowed', do: 'Use a method named by the Allow header.' },
    body_too_large: { status: 413, title: 'Body too large', do: 'Send less; the operator can raise api.max_body_bytes.' },
    unsupported_media_type: { status: 415, title: 'Unsupported media type', do: 'Send Content-Type: application/json, and no Content-Encoding.' },
    quota_used: { status: 429, title: 'Too many requests', do: LATER },
    error: { status: 500, title: 'Unexpected error', do: 'Ask the operator; the logs say more.', kept: 'Unknown; ask for the record by its key.' },
} as const satisfies Record<string, Line>;

export type Code = keyof typeof LINES;

export class Problem extends Error {
    constructor(
        readonly code: Code,
        detail: string,
        readonly more: { field?: string; retryAfterS?: number } = {},
    ) {
        super(detail);
    }
}

export function answer({ code, message, more }: Problem): Response {
    const line: Line = LINES[code];
    const headers: Record<string, string> = { 'content-type': 'application/problem+json' };
    const busy = line.status === 429 || line.status === 503;
    if (busy) headers['retry-after'] = String(more.retryAfterS ?? 1);
    if (line.status === 401) headers['www-authenticate'] = 'Bearer';
    const body = {
        type: `/docs#${code}`,
        title: line.title,
        status: line.status,
        detail: line.status === 500 ? 'The server could not answer; its log has the details.' : message,
        code,
        kept: line.kept ?? NOTHING,
        do: line.do,
        ...(more.field === undefined ? {} : { field: more.field }),
    };
    return new Response(JSON.stringify(body), { status: line.status, headers });
}

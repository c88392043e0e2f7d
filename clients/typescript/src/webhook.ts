/** For the receiving end of webhooks: is this call really from txmanager, and fresh? */

export interface WebhookOptions {
    /** How many seconds old a call may be; an older one is a replay. 300 unless given. */
    readonly toleranceS?: number;
    /** The current time in seconds, for tests. */
    readonly now?: number;
}

/**
 * Check the header `Txmanager-Signature` (`t=seconds,v1=hex`) against the raw body, in constant time.
 *
 * ```ts
 * const genuine = await verifyWebhook(secret, request.headers.get('txmanager-signature'), await request.text());
 * if (!genuine) return new Response('no', { status: 401 });
 * ```
 */
export async function verifyWebhook(
    secret: string,
    signature: string | null | undefined,
    body: string | Uint8Array,
    { toleranceS = 300, now = Date.now() / 1000 }: WebhookOptions = {},
): Promise<boolean> {
    const parts = new Map((signature ?? '').split(',').map((part) => part.split('=', 2) as [string, string]));
    const at = parts.get('t') ?? '';
    const told = parts.get('v1') ?? '';
    if (!/^\d{1,12}$/.test(at) || !/^[0-9a-f]{64}$/.test(told)) return false;
    // Written so that a NaN refuses.
    if (!(Math.abs(now - parseInt(at, 10)) <= toleranceS)) return false;
    const text = new TextEncoder();
    const raw = typeof body === 'string' ? text.encode(body) : body;
    const signed = new Uint8Array([...text.encode(`${at}.`), ...raw]);
    const key = await crypto.subtle.importKey('raw', text.encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
    const bytes = new Uint8Array((told.match(/../g) ?? []).map((pair) => parseInt(pair, 16)));
    return await crypto.subtle.verify('HMAC', key, bytes, signed);
}

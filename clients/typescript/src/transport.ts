/** Where the API is and how a request gets there: a URL, or a service binding of a Worker. Never shows the token. */

/** The part of `fetch` that is used. */
export type Fetch = (url: string, init: FetchInit) => Promise<Response>;
export interface FetchInit {
    readonly method: string;
    readonly headers: Record<string, string>;
    readonly body?: string;
    readonly redirect: 'manual';
    readonly signal: AbortSignal;
}

/** A service binding of Cloudflare Workers, or anything else with a `fetch` of its own. */
export interface Binding {
    fetch(url: string, init: FetchInit): Promise<Response>;
}

export interface TransportOptions {
    readonly baseUrl?: string | undefined;
    readonly binding?: Binding | undefined;
    readonly token?: string | undefined;
    readonly fetch?: Fetch | undefined;
}

export interface Outgoing {
    readonly method: 'GET' | 'POST';
    readonly path: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: string | undefined;
}

export class Transport {
    readonly #base: string;
    readonly #send: Fetch;
    readonly #token: string | undefined;

    constructor({ baseUrl, binding, token, fetch: given }: TransportOptions) {
        if ((baseUrl === undefined) === (binding === undefined)) throw new TypeError('give either baseUrl or binding');
        if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) throw new TypeError('token: must be visible ASCII without spaces');
        this.#base = baseUrl === undefined ? 'https://txmanager' : checkUrl(baseUrl);
        this.#token = token;
        // Called as a plain function: Workers refuse a fetch that has another `this`.
        this.#send = binding ? (url, init) => binding.fetch(url, init) : (given ?? ((url, init) => fetch(url, init)));
    }

    async send({ method, path, headers, body }: Outgoing, signal: AbortSignal): Promise<Response> {
        const all: Record<string, string> = { accept: 'application/json', ...headers };
        if (this.#token !== undefined) all['authorization'] = `Bearer ${this.#token}`;
        if (body !== undefined) all['content-type'] ??= 'application/json';
        const init = { method, headers: all, redirect: 'manual' as const, signal };
        return await this.#send(this.#base + path, body === undefined ? init : { ...init, body });
    }
}

function checkUrl(text: string): string {
    let url: URL;
    try {
        url = new URL(text);
    } catch {
        throw new TypeError('baseUrl: must look like http://127.0.0.1:8080');
    }
    if (!/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash)
        throw new TypeError('baseUrl: must look like http://127.0.0.1:8080, without credentials or a query');
    return url.href.replace(/\/+$/, '');
}

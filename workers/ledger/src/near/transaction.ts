/** Transactions as bytes, and the one key that signs them. Only what `Body` holds is ever signed, never given bytes. */

import { string, u64, u8 } from './borsh';
import { base58, fromBase58, join, sha256, type Bytes } from './bytes';
import { Invalid } from './invalid';
import { keyBytes, keyText, type LaneId } from './names';
import type { Body } from './payload';

/** What PKCS #8 has in front of an Ed25519 seed. */
const PKCS8 = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

export interface Signed {
    raw: Bytes;
    hash: string;
}

export class Signer {
    private constructor(
        private readonly lane: LaneId,
        private readonly key: CryptoKey,
    ) {}

    /** `secret`: as NEAR writes it, `ed25519:` and base58 of seed and public key. */
    static async open(lane: LaneId, secret: string): Promise<Signer> {
        const raw = fromBase58(secret.replace(/^ed25519:/, ''));
        if (raw?.length !== 64) throw new Invalid('KEYS', `the key of ${keyText(lane.key)} is not ed25519: and base58 of 64 bytes`);
        if (base58(raw.subarray(32)) !== base58(lane.key.data)) throw new Invalid('KEYS', `the key of ${keyText(lane.key)} is another one`);
        const seed = Uint8Array.from([...PKCS8, ...raw.subarray(0, 32)]);
        const key = await crypto.subtle.importKey('pkcs8', seed, { name: 'Ed25519' }, false, ['sign']);
        const signer = new Signer(lane, key);
        await signer.trial();
        return signer;
    }

    async sign(body: Body, nonce: bigint, blockHash: string): Promise<Signed> {
        const block = fromBase58(blockHash);
        if (block?.length !== 32) throw new Invalid('block_hash', 'is not base58 of 32 bytes');
        const { account, key } = this.lane;
        const unsigned = join(string(account), keyBytes(key), u64(nonce), body.receiverBytes, block, body.actionBytes);
        const digest = await sha256(unsigned);
        return { raw: join(unsigned, u8(0), await this.over(digest)), hash: base58(digest) };
    }

    private async over(digest: Bytes): Promise<Bytes> {
        return new Uint8Array(await crypto.subtle.sign({ name: 'Ed25519' }, this.key, digest));
    }

    /** A seed that is not of the public key beside it would sign what no node takes. */
    private async trial(): Promise<void> {
        const digest = await sha256(string('txmanager trial signature'));
        const known = await crypto.subtle.importKey('raw', this.lane.key.data, { name: 'Ed25519' }, false, ['verify']);
        if (!(await crypto.subtle.verify({ name: 'Ed25519' }, known, await this.over(digest), digest))) {
            throw new Invalid('KEYS', `the key of ${keyText(this.lane.key)} does not sign for it`);
        }
    }
}

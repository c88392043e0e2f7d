// Generated from /openapi.json by `make openapi`. Do not edit.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Alive: {
            status: string;
        };
        ArchiveView: {
            /** @example sqlite */
            database: string;
            /** @description Final records that it has not taken yet; null where they are not shown. */
            waiting: number | null;
        };
        /** @description One signed transaction. `dead` is the proof that it can never land. */
        AttemptView: {
            nonce: number;
            tx_hash: string;
            /** @example first */
            purpose: string;
            /** Format: date-time */
            signed_at: string;
            dead: {
                [key: string]: unknown;
            } | null;
        };
        AuditList: {
            audit: components["schemas"]["AuditView"][];
        };
        /** @description One call of an operator. */
        AuditView: {
            id: string;
            /** Format: date-time */
            at: string;
            /** @description The token's name, or user@host of a command. */
            who: string;
            /** @description Whose matter it was; `*` is everybody's. */
            tenant: string;
            /** @example POST /v1/lanes/{lane}/pause */
            what: string;
            /** @description The lane, the intent or the dead letter. */
            on: string;
            /** @description The caller's address, or `cli`. */
            origin: string;
            /** @description What came with the call, shortened. */
            told: string;
            /** @description The error's code if the call was refused before it acted; else empty. */
            refused: string;
        };
        /** @description One intent, as `POST /v1/intents` takes it, with its key. */
        BatchItem: {
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
            /** @example near.transfer */
            kind: string;
            payload: {
                [key: string]: unknown;
            };
            /**
             * @description May be left out where the payload implies it.
             * @default null
             */
            idempotency_key?: string | null;
        };
        /** @description The answer to one line, as `BatchResult`. `ended` is the last one: its line and those after it were not read. */
        BatchLine: {
            /** @description Its number in the request, from 1. */
            line: number;
            /** @enum {string} */
            result: "accepted" | "replayed" | "refused" | "ended";
            status: number;
            /** @default null */
            record?: components["schemas"]["RecordView"] | null;
            /** @default null */
            problem?: {
                [key: string]: unknown;
            } | null;
        };
        BatchRequest: {
            /** @description Each as `BatchItem`. */
            intents: {
                [key: string]: unknown;
            }[];
        };
        /** @description `accepted` and `replayed` have a record, `refused` has a problem. */
        BatchResult: {
            /** @enum {string} */
            result: "accepted" | "replayed" | "refused";
            /** @description What a request of its own would have been answered with. */
            status: number;
            /** @default null */
            record?: components["schemas"]["RecordView"] | null;
            /** @default null */
            problem?: {
                [key: string]: unknown;
            } | null;
        };
        BatchView: {
            /** @description In the order of the request. */
            results: components["schemas"]["BatchResult"][];
        };
        BudgetList: {
            budgets: components["schemas"]["BudgetView"][];
        };
        /** @description One budget. Amounts are in the chain's smallest unit. */
        BudgetView: {
            /** @example token:wallet/mainnet/1d */
            name: string;
            /**
             * @description token, pool or key.
             * @example token
             */
            kind: string;
            network: string;
            /**
             * @description Its span, or `ever`.
             * @example 1d
             */
            per: string;
            /** @description What it pays for within its span, now. */
            limit: string;
            /** @description What the configuration says; an operator may have set another limit. */
            configured: string;
            /** @description The worst cases of intents that have not ended. */
            charged: string;
            /** @description What intents cost that ended within the span. */
            spent: string;
            left: string;
            /** @description The ledger may have lost charges: nothing is accepted until it is rebuilt. */
            rebuilding: boolean;
        };
        /** @description Who is calling, and what the token allows. */
        CallerView: {
            name: string;
            /** @description `*` is all tenants. */
            tenant: string;
            /** @description Those that this token can name in `?tenant=`. */
            tenants: string[];
            scopes: string[];
            /** @description Whether it sees all tenants, and may steer lanes if it has the scope `operate`. */
            whole: boolean;
            /** @description The pools it is limited to; null is all of them. */
            pools: string[] | null;
            /** Format: date-time */
            session_ends_at: string | null;
        };
        Check: {
            ok: boolean;
            /** @default null */
            reason?: string | null;
            /** @default null */
            detail?: string | null;
            /** @default null */
            workers?: number | null;
            /** @default null */
            lanes?: {
                [key: string]: number;
            } | null;
        };
        /** @description A login code, for the fragment of a URL. */
        CodeView: {
            code: string;
            lasts_s: number;
        };
        DeadList: {
            dead: components["schemas"]["LetterView"][];
        };
        Deleted: {
            lane: string;
            deleted: boolean;
        };
        /** @description Nothing was written. `forecast` is what acceptance does not check: simulation, price, the lane's key. */
        DryRunView: {
            accepted: components["schemas"]["Verdict"];
            forecast: {
                [key: string]: unknown;
            } | null;
        };
        Ended: {
            ended: boolean;
        };
        EndpointView: {
            host: string;
            /** @description Whether it is one node, and no balancer. */
            direct: boolean;
        };
        /** @description What every submit may carry beside its payload. */
        Envelope: {
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        };
        /** @description One transition. */
        EventView: {
            /** @description The same when the event is delivered twice. */
            id: string;
            idempotency_key: string;
            lane: string;
            pool: string;
            status: components["schemas"]["Status"];
            /** Format: date-time */
            at: string;
            /** @default null */
            tx_hash?: string | null;
            /** @default null */
            error?: string | null;
            /**
             * @description Told in webhooks, and to those who follow all tenants.
             * @default null
             */
            tenant?: string | null;
        };
        EvmAccessEntry: {
            /** @example 0x70997970c51812dc3a010c7d01b50e0d17dc79c8 */
            address: string;
            storage_keys?: string[];
        };
        /** @description An EIP-7702 authorization, signed by the account that delegates. */
        EvmAuthorization: {
            chain_id: string | number;
            /** @example 0x70997970c51812dc3a010c7d01b50e0d17dc79c8 */
            address: string;
            nonce: string | number;
            y_parity: number;
            r: string | number;
            s: string | number;
        };
        /**
         * @description Any transaction: a call, a transfer with data, a contract's creation (no `to`).
         * @example {
         *       "data": "0xa9059cbb00000000000000000000000070997970c51812dc3a010c7d01b50e0d17dc79c80000000000000000000000000000000000000000000000000000000000000001",
         *       "to": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
         *     }
         * @example {
         *       "gas": 21000,
         *       "to": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
         *       "type": 2,
         *       "value": "1000000000000000"
         *     }
         * @example {
         *       "data": "0x6001600c60003960016000f300"
         *     }
         */
        EvmTransaction: {
            /** @default null */
            to?: string | null;
            /** @default 0 */
            value?: string | number;
            /**
             * @default 0x
             * @example 0x
             */
            data?: string;
            /**
             * @description The gas limit; estimated when it is not given.
             * @default null
             */
            gas?: string | number | null;
            /**
             * @default 2
             * @enum {integer}
             */
            type?: 0 | 1 | 2 | 4;
            access_list?: components["schemas"]["EvmAccessEntry"][];
            authorization_list?: components["schemas"]["EvmAuthorization"][];
            /**
             * @description Never pay more per unit of gas for this intent, replacements included.
             * @default null
             */
            max_fee_per_gas?: string | number | null;
            /**
             * @description Run it before a nonce is taken; a revert then fails the intent at no cost. Needs `gas` when off.
             * @default true
             */
            simulate?: boolean;
        };
        /**
         * @description Any transaction: a call, a transfer with data, a contract's creation (no `to`).
         * @example {
         *       "data": "0xa9059cbb00000000000000000000000070997970c51812dc3a010c7d01b50e0d17dc79c80000000000000000000000000000000000000000000000000000000000000001",
         *       "to": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
         *     }
         * @example {
         *       "gas": 21000,
         *       "to": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
         *       "type": 2,
         *       "value": "1000000000000000"
         *     }
         * @example {
         *       "data": "0x6001600c60003960016000f300"
         *     }
         */
        EvmTransactionRequest: {
            /** @default null */
            to?: string | null;
            /** @default 0 */
            value?: string | number;
            /**
             * @default 0x
             * @example 0x
             */
            data?: string;
            /**
             * @description The gas limit; estimated when it is not given.
             * @default null
             */
            gas?: string | number | null;
            /**
             * @default 2
             * @enum {integer}
             */
            type?: 0 | 1 | 2 | 4;
            access_list?: components["schemas"]["EvmAccessEntry"][];
            authorization_list?: components["schemas"]["EvmAuthorization"][];
            /**
             * @description Never pay more per unit of gas for this intent, replacements included.
             * @default null
             */
            max_fee_per_gas?: string | number | null;
            /**
             * @description Run it before a nonce is taken; a revert then fails the intent at no cost. Needs `gas` when off.
             * @default true
             */
            simulate?: boolean;
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        };
        /**
         * @description Ether, or whatever the chain's coin is, to one address.
         * @example {
         *       "to": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
         *       "value": "1000000000000000"
         *     }
         */
        EvmTransfer: {
            /** @example 0x70997970c51812dc3a010c7d01b50e0d17dc79c8 */
            to: string;
            value: string | number;
            /** @default null */
            max_fee_per_gas?: string | number | null;
        };
        /** @description What transactions cost now. */
        FeeRequest: {
            /**
             * @description A configured network: its name, or its chain id.
             * @example ethereum
             * @example 1
             */
            networkId: string | number;
        };
        /** @description Decimal strings, wei per unit of gas. */
        FeeView: {
            networkId: string;
            gasPrice: string;
            baseFeePerGas: string;
            maxFeePerGas: string;
            maxPriorityFeePerGas: string;
        };
        /** @description How an address stands. `gapCount` above 0 means that nothing higher lands before the gap is filled. */
        HealthView: {
            address: string;
            networkId: string;
            trackedNonce: number | null;
            chainNonce: number | null;
            pendingCount: number;
            /** @example 45s */
            oldestPendingAge: string;
            gapCount: number;
            gaps: number[];
            reservedCount: number;
            keyless: boolean;
            state: string;
            pending: components["schemas"]["TrackingView"][];
        };
        /** @description Newest first by the time of acceptance. */
        IntentList: {
            intents: components["schemas"]["RecordView"][];
            /** @description Where the next page begins; null at the end. */
            cursor: string | null;
            /** @description It looked at enough and stopped: there may be more behind `cursor`. */
            partial: boolean;
            /** @description Whether ended intents are listed. Without an archive only live ones are. */
            archived: boolean;
        };
        /** @description An intent of any kind. */
        IntentRequest: {
            /** @constant */
            kind: "evm.transaction";
            payload: components["schemas"]["EvmTransaction"];
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        } | {
            /** @constant */
            kind: "evm.transfer";
            payload: components["schemas"]["EvmTransfer"];
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        } | {
            /** @constant */
            kind: "near.create_account";
            payload: components["schemas"]["NearCreateAccount"];
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        } | {
            /** @constant */
            kind: "near.delegate";
            payload: components["schemas"]["NearDelegate"];
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        } | {
            /** @constant */
            kind: "near.recovery";
            payload: components["schemas"]["NearRecovery"];
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        } | {
            /** @constant */
            kind: "near.transaction";
            payload: components["schemas"]["NearTransaction"];
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        } | {
            /** @constant */
            kind: "near.function_call";
            payload: components["schemas"]["NearFunctionCall"];
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        } | {
            /** @constant */
            kind: "near.transfer";
            payload: components["schemas"]["NearTransfer"];
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        } | {
            /** @constant */
            kind: "near.add_key";
            payload: components["schemas"]["NearAddKey"];
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        };
        LaneList: {
            lanes: components["schemas"]["LaneView"][];
        };
        /**
         * @description Whether a lane works. A lane is quarantined; an intent is held.
         * @enum {string}
         */
        LaneState: "active" | "draining" | "paused" | "quarantined" | "closed";
        /** @description One signing key and its queue. */
        LaneView: {
            lane: string;
            pool: string;
            state: components["schemas"]["LaneState"];
            /** @description Whether the callers hold the key and sign themselves. */
            keyless: boolean;
            reason: string;
            evidence: {
                [key: string]: unknown;
            };
            /** @description The worker that holds it; empty when nobody does. */
            owner: string;
            epoch: number;
            lease_ms: number;
            /** @description The next nonce to sign with. */
            cursor: number | null;
            landed: number | null;
            /** @description Intents queued, in flight and held. */
            depth: number;
            unfinished: number;
            oldest_ms: number;
        };
        /** @description An event that its webhook did not take. */
        LetterView: {
            id: string;
            pool: string;
            target: string;
            event: {
                [key: string]: unknown;
            };
            tries: number;
            error: string;
            /** Format: date-time */
            at: string;
        };
        /** @description Wait for your turn with an address; the number comes with it. */
        LockRequest: {
            /** @example 0x70997970c51812dc3a010c7d01b50e0d17dc79c8 */
            address: string;
            /**
             * @description A configured network: its name, or its chain id.
             * @example ethereum
             * @example 1
             */
            networkId: string | number;
            /**
             * @description Your own random token: it keeps your place in line over retries.
             * @default null
             */
            lockId?: string | null;
            /** @default null */
            ttlSeconds?: number | null;
            /**
             * @description How long to wait in line before 429.
             * @default 10
             */
            waitSeconds?: number;
        };
        LockedView: {
            address: string;
            networkId: string;
            nonce: number;
            lockId: string;
            /** @description Grows with each turn. */
            fence: number;
            /** Format: date-time */
            expiresAt: string | null;
        };
        /** @description What one look at the lanes found, for those who may see it. */
        LookView: {
            /** @description The ledger's clock, in milliseconds. */
            at: number;
            /** @description Whether `lanes` are all lanes, or those that changed. */
            all: boolean;
            lanes: components["schemas"]["LaneView"][];
            /** @description Lanes that were deleted. */
            gone: string[];
            events: components["schemas"]["EventView"][];
            /** @description More happened than is told: read what you show again. */
            missed: boolean;
            /** @description The ledger does not answer. */
            away: boolean;
        };
        /**
         * @description A new access key of the relayer's own account.
         * @example {
         *       "public_key": "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
         *     }
         */
        NearAddKey: {
            /** @example ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp */
            public_key: string;
            /** @default full_access */
            permission?: "full_access" | components["schemas"]["NearCallPermission"];
            /** @default null */
            num_nonces?: number | null;
        };
        NearAddKeyAction: {
            /** @example ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp */
            public_key: string;
            /** @default full_access */
            permission?: "full_access" | components["schemas"]["NearCallPermission"];
            /** @default null */
            num_nonces?: number | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "add_key";
        };
        NearCallPermission: {
            /** @example alice.near */
            receiver_id: string;
            method_names?: string[];
            /** @default null */
            allowance?: string | number | null;
        };
        /**
         * @description A sub-account of the relayer by three actions of its own, or any name through a root contract.
         * @example {
         *       "initial_balance": "10000000000000000000000",
         *       "new_account_id": "alice.relayer.near",
         *       "public_key": "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
         *     }
         * @example {
         *       "new_account_id": "alice.near",
         *       "public_key": "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp",
         *       "root_contract": "near"
         *     }
         */
        NearCreateAccount: {
            /** @example alice.near */
            new_account_id: string;
            /** @example ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp */
            public_key: string;
            /** @default 0 */
            initial_balance?: string | number;
            /**
             * @description `near` on mainnet, `testnet` on testnet.
             * @default null
             */
            root_contract?: string | null;
            /** @description Run on the new account in the same transaction: all happen, or none. */
            extra_actions?: (components["schemas"]["NearCreateAccountAction"] | components["schemas"]["NearDeployContractAction"] | components["schemas"]["NearFunctionCallAction"] | components["schemas"]["NearTransferAction"] | components["schemas"]["NearStakeAction"] | components["schemas"]["NearAddKeyAction"] | components["schemas"]["NearDeleteKeyAction"] | components["schemas"]["NearDeleteAccountAction"] | components["schemas"]["NearTransferToGasKeyAction"] | components["schemas"]["NearWithdrawFromGasKeyAction"])[];
            /** @default 100000000000000 */
            gas?: string | number;
        };
        NearCreateAccountAction: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "create_account";
        };
        /**
         * @description A sub-account of the relayer by three actions of its own, or any name through a root contract.
         * @example {
         *       "initial_balance": "10000000000000000000000",
         *       "new_account_id": "alice.relayer.near",
         *       "new_public_key": "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
         *     }
         * @example {
         *       "new_account_id": "alice.near",
         *       "root_contract": "near",
         *       "new_public_key": "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
         *     }
         */
        NearCreateAccountRequest: {
            /** @example alice.near */
            new_account_id: string;
            /** @default 0 */
            initial_balance?: string | number;
            /**
             * @description `near` on mainnet, `testnet` on testnet.
             * @default null
             */
            root_contract?: string | null;
            /** @description Run on the new account in the same transaction: all happen, or none. */
            extra_actions?: (components["schemas"]["NearCreateAccountAction"] | components["schemas"]["NearDeployContractAction"] | components["schemas"]["NearFunctionCallAction"] | components["schemas"]["NearTransferAction"] | components["schemas"]["NearStakeAction"] | components["schemas"]["NearAddKeyAction"] | components["schemas"]["NearDeleteKeyAction"] | components["schemas"]["NearDeleteAccountAction"] | components["schemas"]["NearTransferToGasKeyAction"] | components["schemas"]["NearWithdrawFromGasKeyAction"])[];
            /** @default 100000000000000 */
            gas?: string | number;
            /** @example ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp */
            new_public_key: string;
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        };
        /**
         * @description A user's signed delegate action, paid for by the relayer.
         * @example {
         *       "signed_delegate": "CgAAAGFsaWNlLm5lYXI..."
         *     }
         */
        NearDelegate: {
            /** @description Base64 of the borsh-encoded SignedDelegateAction, or its JSON as nearcore writes it. */
            signed_delegate: string | {
                [key: string]: unknown;
            };
        };
        /**
         * @description A user's signed delegate action, paid for by the relayer.
         * @example {
         *       "signed_delegate": "CgAAAGFsaWNlLm5lYXI..."
         *     }
         */
        NearDelegateRequest: {
            /** @description Base64 of the borsh-encoded SignedDelegateAction, or its JSON as nearcore writes it. */
            signed_delegate: string | {
                [key: string]: unknown;
            };
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        };
        NearDeleteAccountAction: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "delete_account";
            /** @example alice.near */
            beneficiary_id: string;
        };
        NearDeleteKeyAction: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "delete_key";
            /** @example ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp */
            public_key: string;
        };
        NearDeployContractAction: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "deploy_contract";
            code_base64: string;
        };
        /**
         * @description One call of one contract.
         * @example {
         *       "args": {
         *         "amount": "1",
         *         "receiver_id": "bob.near"
         *       },
         *       "contract_id": "usdt.near",
         *       "deposit": "1",
         *       "method_name": "ft_transfer"
         *     }
         */
        NearFunctionCall: {
            /** @example ft_transfer */
            method_name: string;
            /**
             * @default null
             * @example {
             *       "amount": "1",
             *       "receiver_id": "bob.near"
             *     }
             */
            args?: unknown;
            /** @default null */
            args_base64?: string | null;
            /** @default 30000000000000 */
            gas?: string | number;
            /** @default 0 */
            deposit?: string | number;
            /** @example alice.near */
            contract_id: string;
        };
        NearFunctionCallAction: {
            /** @example ft_transfer */
            method_name: string;
            /**
             * @default null
             * @example {
             *       "amount": "1",
             *       "receiver_id": "bob.near"
             *     }
             */
            args?: unknown;
            /** @default null */
            args_base64?: string | null;
            /** @default 30000000000000 */
            gas?: string | number;
            /** @default 0 */
            deposit?: string | number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "function_call";
        };
        /**
         * @description An account recovery: one function call, tried once per (account, message).
         * @example {
         *       "account_id": "alice.near",
         *       "args": {
         *         "account_id": "alice.near",
         *         "public_key": "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
         *       },
         *       "contract_id": "recovery.near",
         *       "message_id": "0d9c2a51",
         *       "method_name": "recover"
         *     }
         */
        NearRecovery: {
            /** @example ft_transfer */
            method_name: string;
            /**
             * @default null
             * @example {
             *       "amount": "1",
             *       "receiver_id": "bob.near"
             *     }
             */
            args?: unknown;
            /** @default null */
            args_base64?: string | null;
            /** @default 30000000000000 */
            gas?: string | number;
            /** @default 0 */
            deposit?: string | number;
            /** @example alice.near */
            account_id: string;
            message_id: string;
            /** @example alice.near */
            contract_id: string;
        };
        /**
         * @description An account recovery: one function call, tried once per (account, message).
         * @example {
         *       "account_id": "alice.near",
         *       "args": {
         *         "account_id": "alice.near",
         *         "public_key": "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
         *       },
         *       "contract_id": "recovery.near",
         *       "message_id": "0d9c2a51",
         *       "method_name": "recover"
         *     }
         */
        NearRecoveryRequest: {
            /** @example ft_transfer */
            method_name: string;
            /**
             * @default null
             * @example {
             *       "amount": "1",
             *       "receiver_id": "bob.near"
             *     }
             */
            args?: unknown;
            /** @default null */
            args_base64?: string | null;
            /** @default 30000000000000 */
            gas?: string | number;
            /** @default 0 */
            deposit?: string | number;
            /** @example alice.near */
            account_id: string;
            message_id: string;
            /** @example alice.near */
            contract_id: string;
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        };
        NearStakeAction: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "stake";
            stake: string | number;
            /** @example ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp */
            public_key: string;
        };
        /**
         * @description Any list of actions on one receiver, all or nothing.
         * @example {
         *       "actions": [
         *         {
         *           "amount": "1",
         *           "type": "transfer"
         *         }
         *       ],
         *       "receiver_id": "bob.near"
         *     }
         */
        NearTransaction: {
            /** @example alice.near */
            receiver_id: string;
            actions: (components["schemas"]["NearCreateAccountAction"] | components["schemas"]["NearDeployContractAction"] | components["schemas"]["NearFunctionCallAction"] | components["schemas"]["NearTransferAction"] | components["schemas"]["NearStakeAction"] | components["schemas"]["NearAddKeyAction"] | components["schemas"]["NearDeleteKeyAction"] | components["schemas"]["NearDeleteAccountAction"] | components["schemas"]["NearTransferToGasKeyAction"] | components["schemas"]["NearWithdrawFromGasKeyAction"])[];
        };
        /**
         * @description Any list of actions on one receiver, all or nothing.
         * @example {
         *       "actions": [
         *         {
         *           "amount": "1",
         *           "type": "transfer"
         *         }
         *       ],
         *       "receiver_id": "bob.near"
         *     }
         */
        NearTransactionRequest: {
            /** @example alice.near */
            receiver_id: string;
            actions: (components["schemas"]["NearCreateAccountAction"] | components["schemas"]["NearDeployContractAction"] | components["schemas"]["NearFunctionCallAction"] | components["schemas"]["NearTransferAction"] | components["schemas"]["NearStakeAction"] | components["schemas"]["NearAddKeyAction"] | components["schemas"]["NearDeleteKeyAction"] | components["schemas"]["NearDeleteAccountAction"] | components["schemas"]["NearTransferToGasKeyAction"] | components["schemas"]["NearWithdrawFromGasKeyAction"])[];
            /**
             * @description May be left out where the token or the configuration knows only one.
             * @default null
             */
            pool?: string | null;
            /**
             * @description Intents with the same one share a lane, and so keep their order.
             * @default null
             */
            partition_key?: string | null;
            /**
             * @description Fail instead of signing when it waited longer than this.
             * @default null
             */
            max_age_s?: number | null;
            /**
             * @description Whose budget it is charged to beside the token's and the pool's: one of your users or apps.
             * @default null
             */
            budget_key?: string | null;
            /** @description Yours; comes back in the record. At most 4096 bytes of JSON. */
            metadata?: {
                [key: string]: unknown;
            };
        };
        /**
         * @example {
         *       "amount": "1",
         *       "receiver_id": "bob.near"
         *     }
         */
        NearTransfer: {
            /** @example alice.near */
            receiver_id: string;
            amount: string | number;
        };
        NearTransferAction: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "transfer";
            amount: string | number;
        };
        NearTransferToGasKeyAction: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "transfer_to_gas_key";
            /** @example ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp */
            public_key: string;
            amount: string | number;
        };
        NearWithdrawFromGasKeyAction: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "withdraw_from_gas_key";
            /** @example ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp */
            public_key: string;
            amount: string | number;
        };
        /** @description The code of a login. */
        OpenRequest: {
            code: string;
        };
        /** @description A session's token: it is shown once. */
        OpenedView: {
            token: string;
            /** Format: date-time */
            ends_at: string;
        };
        /** @description The final result, from chain data. */
        OutcomeView: {
            status: components["schemas"]["Status"];
            result: {
                [key: string]: unknown;
            } | null;
        };
        /** @description Why; it is shown to everybody who looks at the lane. */
        PauseRequest: {
            /** @default  */
            reason?: string;
        };
        /** @description RFC 9457. `code` is stable; `kept` says what was stored, `do` what helps. */
        Problem: {
            type: string;
            title: string;
            status: number;
            detail: string;
            /**
             * @example idempotency_key_reused
             * @enum {string}
             */
            code: "bad_bytes" | "bad_signature" | "body_too_large" | "budget_exhausted" | "busy" | "error" | "fenced" | "forbidden" | "foreign_host" | "headers_too_large" | "idempotency_key_reused" | "invalid_idempotency_key" | "invalid_input" | "invalid_settings" | "key_missing" | "lane_closed" | "ledger_memory_full" | "ledger_rolled_back" | "malformed_request" | "method_not_allowed" | "misconfigured" | "missing_idempotency_key" | "no_lane" | "no_route" | "nonce_conflict" | "not_allowed" | "not_found" | "not_signed" | "outdated" | "own_account_refused" | "policy_refused" | "queue_full" | "quota_used" | "refused" | "request_refused" | "request_too_slow" | "reservation_over" | "signer_away" | "signer_fault" | "signer_refused" | "stale_claim" | "token_queue_full" | "too_many_connections" | "too_many_held" | "too_many_streams" | "transaction_refused" | "turn_taken" | "unauthorized" | "unavailable" | "unconfirmed" | "unsupported_media_type";
            kept: string;
            do: string;
            /** @default null */
            field?: string | null;
            /**
             * @description NONCE_CONFLICT, where that is the problem.
             * @default null
             */
            error?: string | null;
            /**
             * @description The address's next number.
             * @default null
             */
            currentNonce?: number | null;
            /** @default null */
            attemptedNonce?: number | null;
            /**
             * @description Whether a new reservation and signature help.
             * @default null
             */
            shouldRetry?: boolean | null;
            /**
             * @description The budget that does not pay for it.
             * @default null
             */
            budget?: string | null;
            /**
             * @description What is left of it, in the chain's smallest unit.
             * @default null
             */
            left?: string | null;
            /**
             * @description What the intent costs at worst, in the same unit.
             * @default null
             */
            needs?: string | null;
            /**
             * @description Your place in line.
             * @default null
             */
            lockId?: string | null;
            /**
             * @description How many are before you.
             * @default null
             */
            ahead?: number | null;
        };
        /** @description What lanes pay from. */
        PurseList: {
            purses: components["schemas"]["PurseView"][];
            /**
             * Format: date-time
             * @description When the chains answered; null before that.
             */
            read_at: string | null;
        };
        /** @description One place that lanes pay from. */
        PurseView: {
            purse: string;
            /**
             * @example account
             * @example gas_key
             * @example allowance
             */
            kind: string;
            network: string;
            /** @description In the chain's smallest unit. */
            balance: string;
            /** @description Below this the monitor raises an alert; null where nothing is configured. */
            low: string | null;
            is_low: boolean;
            /** @description The lanes that pay from it. */
            lanes: string[];
        };
        Readiness: {
            status: string;
            checks: {
                [key: string]: components["schemas"]["Check"];
            };
        };
        /** @description Whether the lane stays paused afterwards: time to cancel what is queued although it was paid. */
        RebaselineRequest: {
            /** @default false */
            paused?: boolean;
        };
        /** @description Everything there is to know of an intent. */
        RecordView: {
            idempotency_key: string;
            /** @example near.create_account */
            kind: string;
            pool: string;
            /** @description The signing key whose queue it went through. */
            lane: string;
            status: components["schemas"]["Status"];
            tx_hash: string | null;
            nonce: number | null;
            attempts: components["schemas"]["AttemptView"][];
            outcome: components["schemas"]["OutcomeView"] | null;
            /** @description `code`, `message`, `spent` and `new_key_helps` of a failure. */
            error: {
                [key: string]: unknown;
            } | null;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
            metadata: {
                [key: string]: unknown;
            };
            /**
             * @description What budgets were charged for it at worst, in the smallest unit. Where one pays.
             * @default null
             */
            charge?: string | null;
            /**
             * @description What they were booked at its end. Where one pays.
             * @default null
             */
            cost?: string | null;
            /**
             * @description Whose it is. In lists.
             * @default null
             */
            tenant?: string | null;
            /**
             * @description Names this use of the key, for ever. In lists.
             * @default null
             */
            life?: string | null;
            /**
             * @description As it was accepted; null where only the outcome is kept. In lists.
             * @default null
             */
            payload?: {
                [key: string]: unknown;
            } | null;
        };
        /** @description Give back a number that was not sent. */
        RecycleRequest: {
            /** @example 0x70997970c51812dc3a010c7d01b50e0d17dc79c8 */
            address: string;
            /**
             * @description A configured network: its name, or its chain id.
             * @example ethereum
             * @example 1
             */
            networkId: string | number;
            reservation: string;
        };
        RecycledView: {
            nonce: number;
            recycled: boolean;
            /** @description Higher numbers are out; this one is handed out first. */
            gap: boolean;
        };
        ReservationList: {
            reservations: components["schemas"]["ReservationView"][];
        };
        /** @description One number that is out. */
        ReservationView: {
            nonce: number;
            tenant: string;
            state: string;
            /** Format: date-time */
            at: string;
            /**
             * Format: date-time
             * @description null once it was sent.
             */
            expires_at: string | null;
            /** @description What was sent at this number; any of them may land. */
            tx_hashes: string[];
        };
        /** @description Reserve the next number of an address whose key is yours. */
        ReserveRequest: {
            /** @example 0x70997970c51812dc3a010c7d01b50e0d17dc79c8 */
            address: string;
            /**
             * @description A configured network: its name, or its chain id.
             * @example ethereum
             * @example 1
             */
            networkId: string | number;
            /**
             * @description Your own random token: a retry with it gets the same number. Without one, one is made up.
             * @default null
             */
            reservation?: string | null;
            /**
             * @description How long the number is kept for you unsent; by default the pool's reserve_for_s.
             * @default null
             */
            ttlSeconds?: number | null;
        };
        ReservedView: {
            address: string;
            networkId: string;
            nonce: number;
            /** @description The owner's token: it sends with this number, or gives it back. */
            reservation: string;
            /**
             * Format: date-time
             * @description null once it was sent.
             */
            expiresAt: string | null;
        };
        /** @description An operator's word on a held intent. */
        ResolveRequest: {
            /** @example track */
            verb: string;
        };
        /** @description Send bytes that you signed, at a number that you reserved. The same bytes again are the same transaction. */
        SendRawRequest: {
            /** @description The signed transaction, as hex. */
            signedTransaction: string;
            /**
             * @description A configured network: its name, or its chain id.
             * @example ethereum
             * @example 1
             */
            networkId: string | number;
            /**
             * @description Checked against the signature, when it is given.
             * @default null
             */
            address?: string | null;
            /** @default null */
            reservation?: string | null;
            /** @default null */
            lockId?: string | null;
            /** @description Yours; comes back in the record. */
            metadata?: {
                [key: string]: unknown;
            };
        };
        /** @description A transaction that a lane of ours signs: an intent. Needs an Idempotency-Key. */
        SendRequest: {
            /**
             * @description A configured network: its name, or its chain id.
             * @example ethereum
             * @example 1
             */
            networkId: string | number;
            /**
             * @description The lane's address; any of the pool if not.
             * @default null
             */
            from?: string | null;
            /** @default null */
            to?: string | null;
            /**
             * @description Wei, as a decimal or 0x string.
             * @default 0
             * @example 1000000000000000
             */
            value?: string | number;
            /** @default 0x */
            data?: string;
            /** @default null */
            gasLimit?: (string | number) | null;
            /** @default null */
            maxFeePerGas?: (string | number) | null;
            /** @default null */
            pool?: string | null;
            metadata?: {
                [key: string]: unknown;
            };
        };
        SentView: {
            txHash: string;
            from: string;
            networkId: string;
            nonce: number;
            gasPrice: string;
            /** Format: date-time */
            submittedAt: string;
            status: string;
            /** Format: date-time */
            lastCheckedAt: string | null;
            idempotencyKey: string;
            /** @description The record's own status: queued, inflight, held, done, failed, cancelled. */
            recordStatus: string;
        };
        SessionList: {
            sessions: components["schemas"]["SessionView"][];
        };
        /** @description One login. */
        SessionView: {
            id: string;
            /** @description The token that it acts as. */
            name: string;
            /** Format: date-time */
            opened_at: string;
            /** Format: date-time */
            ends_at: string;
            origin: string;
            /** @description Whether it is the session that asks. */
            own: boolean;
        };
        SignersView: {
            pool: string;
            /** @description Where its keys are: `file`, `env`, or the name of a signer. */
            sources: string[];
        };
        /**
         * @description What a row spent money on. All of them together are what a balance lost.
         * @enum {string}
         */
        Spending: "intent" | "top_up" | "key_action" | "noop" | "gap_fill";
        /**
         * @description Where an intent is. Each member says who moves it on, and what a crash leaves behind.
         * @enum {string}
         */
        Status: "queued" | "inflight" | "held" | "done" | "failed" | "cancelled";
        SystemNetworkView: {
            name: string;
            chain: string;
            title: string;
            /** @description How the ids of its lanes begin. */
            lanes: string;
            unit: components["schemas"]["UnitView"];
            /** @description The page of a transaction; `{hash}` stands for its hash. */
            explorer: string | null;
            pools: string[];
            /** @description null where the token may not see them. */
            endpoints: components["schemas"]["EndpointView"][] | null;
        };
        /** @description What the installation consists of. */
        SystemView: {
            version: string;
            networks: components["schemas"]["SystemNetworkView"][];
            /** @description null where there is none. */
            archive: components["schemas"]["ArchiveView"] | null;
            /** @description null where the token may not see them. */
            workers: components["schemas"]["WorkerView"][] | null;
            /** @description null where the token may not see them. */
            signers: components["schemas"]["SignersView"][] | null;
        };
        /** @description One transaction that was given to us. Its record is GET /v1/intents/{idempotencyKey}. */
        TrackingView: {
            txHash: string;
            from: string;
            networkId: string;
            nonce: number;
            gasPrice: string;
            /** Format: date-time */
            submittedAt: string;
            status: string;
            /** Format: date-time */
            lastCheckedAt: string | null;
        };
        /** @description The chain's money. */
        UnitView: {
            smallest: string;
            coin: string;
            decimals: number;
        };
        /** @description End a turn, or leave the line. A number that was not sent goes back. */
        UnlockRequest: {
            /** @example 0x70997970c51812dc3a010c7d01b50e0d17dc79c8 */
            address: string;
            /**
             * @description A configured network: its name, or its chain id.
             * @example ethereum
             * @example 1
             */
            networkId: string | number;
            lockId: string;
        };
        UnlockedView: {
            unlocked: boolean;
            recycled: boolean;
            nonce: number | null;
        };
        UsageList: {
            usage: components["schemas"]["UsageView"][];
        };
        /** @description Sums of one group on one network. Amounts are exact, in the chain's smallest unit. */
        UsageView: {
            /**
             * @description Amounts of two networks are never added.
             * @example near:mainnet
             */
            network: string;
            /** @description What the money went for. */
            spending: components["schemas"]["Spending"];
            /** @default null */
            tenant?: string | null;
            /** @default null */
            token?: string | null;
            /** @default null */
            pool?: string | null;
            /** @default null */
            kind?: string | null;
            /**
             * Format: date
             * @default null
             */
            day?: string | null;
            count: number;
            done: number;
            failed: number;
            cancelled: number;
            /** @description Everything that left the lanes: fees and deposits. */
            cost: string;
            /** @description What intents that are done paid to others, as their payloads say. */
            deposits: string;
            /** @description Intents whose cost the chain did not tell; no sum has them. */
            unknown: number;
        };
        /** @description What the same request without `dry_run` would be answered with. */
        Verdict: {
            ok: boolean;
            status: number;
            /** @default null */
            replayed?: boolean | null;
            /**
             * @description Where it would go.
             * @default null
             */
            lane?: string | null;
            /**
             * @description What budgets would be charged, in the smallest unit.
             * @default null
             */
            charge?: string | null;
            /** @default null */
            problem?: {
                [key: string]: unknown;
            } | null;
        };
        WorkerView: {
            name: string;
            /** @description Lanes that it is able to serve. */
            serves: number;
            /** @description Lanes that it owns now. */
            holds: number;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;

/** What the caller corrects: the field, what is wrong with it, and a stable word for the sort of refusal. */
export class Invalid extends Error {
    constructor(
        readonly field: string,
        readonly problem: string,
        readonly code: 'invalid_input' | 'invalid_idempotency_key' | 'policy_refused' | 'own_account_refused' = 'invalid_input',
    ) {
        super(`${field}: ${problem}`);
    }
}

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

/** A setting that is wrong is the operator's to correct: the log names it, and no caller hears of it. */
export function asSetting<T>(read: () => T): T {
    try {
        return read();
    } catch (error) {
        throw error instanceof Invalid ? new Error(error.message) : error;
    }
}

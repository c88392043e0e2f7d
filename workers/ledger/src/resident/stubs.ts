/** One step on another object. */

import type { Answer, LedgerObject, Role } from '../object';
import { StepRefused } from './world';

type Stub = Pick<DurableObjectStub<LedgerObject>, 'run'>;

export async function answerOf(stub: Stub, role: Role, operation: string, args: unknown): Promise<Answer> {
    const answers: Promise<Answer[]> = Promise.resolve(stub.run(role, [{ operation, args, request: crypto.randomUUID() }]));
    return (await answers)[0] ?? { error: 'unavailable', told: {} };
}

export function readAnswer(answer: Answer): unknown {
    if ('error' in answer) throw new StepRefused(answer.error, answer.told);
    return answer.ok;
}

export async function stepOn(stub: Stub, role: Role, operation: string, args: unknown): Promise<unknown> {
    return readAnswer(await answerOf(stub, role, operation, args));
}

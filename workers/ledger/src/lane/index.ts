/** One object per lane: a queue, an owner, a cursor. Hints go out over sockets that sleep with the object. */

import { LedgerObject, Refusal, allow, type Answer, type Call, type Role } from '../object';
import { create, type Spec } from './manage';
import { LANE_OPERATIONS } from './operations';
import { readLane, writeLane, type Step } from './row';
import { LANE_TABLES } from './tables';

export class Lane extends LedgerObject {
    protected readonly tables: readonly string[] = LANE_TABLES;
    private hints = new Set<string>();

    override run(role: Role, calls: Call[]): Answer[] {
        const answers = super.run(role, calls);
        const hints = [...this.hints];
        this.hints.clear();
        if (hints.length > 0) this.told(hints);
        return answers;
    }

    /** After the commit. A hint may be lost: nobody relies on it. */
    protected told(hints: string[]): void {
        this.tell(hints.join('\n'));
    }

    protected step(name: string, args: unknown, role: Role, request: string, now: number): unknown {
        const operation = LANE_OPERATIONS[name];
        if (operation === undefined) throw new Refusal('unknown_operation', { operation: name });
        allow(role, operation.by);
        const found = this.env.INCARNATION;
        if (name === 'register') {
            const spec = args as Spec;
            if (spec.resident === true) allow(role, 'resident');
            this.begin(spec, found);
        }
        const before = this.exists() ? readLane(this.sql) : undefined;
        if (before === undefined) return operation.absent(args as never);
        if (operation.once === true) this.once(request, now);
        const step: Step = {
            sql: this.sql,
            now,
            lane: { ...before },
            found,
            wake: () => {
                this.hints.add('wake');
                this.woken?.(step, role);
            },
            ended: (id) => this.hints.add(id),
        };
        const answer = operation.run(step, args as never);
        writeLane(this.sql, before, step.lane);
        return answer;
    }

    /** Inside the step that gave the lane something to do: what is set here is kept or lost with it. */
    protected woken?(step: Step, by: Role): void;

    private begin(spec: Spec, history: string): void {
        this.open();
        if (readLane(this.sql) === undefined) create(this.sql, spec, history);
    }

    /** A socket for hints; the front has checked who asks. */
    override fetch(): Response {
        const { 0: theirs, 1: ours } = new WebSocketPair();
        this.ctx.acceptWebSocket(ours);
        return new Response(null, { status: 101, webSocket: theirs });
    }

    override webSocketMessage(): void {
        // Nobody has anything to say here.
    }

    override webSocketClose(socket: WebSocket): void {
        socket.close();
    }

    private tell(hint: string): void {
        for (const socket of this.ctx.getWebSockets()) {
            try {
                socket.send(hint);
            } catch {
                // Whoever is gone reads again by itself.
            }
        }
    }
}

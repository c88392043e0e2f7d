// workerd: the same, asked over HTTP.
import { run } from '../run.ts';

export default {
    async fetch(request) {
        const { control, names } = await request.json();
        return Response.json(await run(control, names));
    },
};

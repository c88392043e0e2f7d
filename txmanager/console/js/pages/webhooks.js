// Events that no target took, and another try.
import { html, useState } from '../../vendor/preact.js'
import { call, useGet } from '../api.js'
import { count } from '../format.js'
import { useValue } from '../observable.js'
import { Link } from '../router.js'
import { session } from '../session.js'
import { Empty, Head, Note, Panel, Trouble } from '../ui/notes.js'
import { Status } from '../ui/status.js'
import { Table } from '../ui/table.js'
import { Ago } from '../ui/time.js'

export function Webhooks() {
  const operates = useValue(session).who.scopes.includes('operate')
  const dead = useGet('/v1/webhooks/dead', {}, { everyMs: 15_000, skip: !operates })
  const [problem, setProblem] = useState(null)
  if (!operates) return html`<${Head} title="Webhooks" /><${Note} tone="quiet">Dead letters need the scope <code>operate</code>.</${Note}>`
  const rows = dead.value?.dead ?? []
  const retry = async letters => {
    setProblem(null)
    try {
      for (const letter of letters) await call('POST', `/v1/webhooks/dead/${encodeURIComponent(letter.id)}/retry`)
    } catch (error) {
      setProblem(error)
    }
    dead.reload()
  }
  return html`<${Head} title="Webhooks" verbs=${rows.length > 1 && html`<button type="button" onClick=${() => retry(rows)}>Deliver all ${rows.length} again</button>`}>
      ${rows.length ? `${count(rows.length, 'event')} that no target took` : 'Events that no target took'}</${Head}>
    <${Trouble} problem=${problem ?? dead.problem} retry=${dead.reload} />
    <${Panel} flush><${Table} label="Dead letters" rows=${rows} keyOf=${letter => letter.id} tall=${18}
      empty=${html`<${Empty} title="Every event was delivered.">An event is tried for a while before it comes here. Targets are set in <code>[[pools.NAME.webhooks]]</code>.</${Empty}>`}
      columns=${[
        { name: 'status', title: 'Event', width: '86px', cell: letter => html`<${Status} of=${letter.event.status} />` },
        { name: 'key', title: 'Intent', width: 'minmax(0, 1.4fr)', cell: letter => html`<${Link} class="mono" page="intent" query=${{ key: letter.event.idempotency_key, pool: letter.pool, tenant: letter.event.tenant }}>${letter.event.idempotency_key}</${Link}>` },
        { name: 'target', title: 'Target', wide: true, cell: letter => html`<span title=${letter.target}>${letter.target}</span>` },
        { name: 'error', title: 'Last answer', wide: true, width: 'minmax(0, 1.2fr)', cell: letter => html`<span title=${letter.error}>${letter.error}</span>` },
        { name: 'tries', title: 'Tries', right: true, wide: true, width: '60px', cell: letter => letter.tries },
        { name: 'at', title: 'Given up', right: true, wide: true, width: '92px', cell: letter => html`<${Ago} at=${letter.at} />` },
        { name: 'retry', title: '', right: true, width: '118px', cell: letter => html`<button type="button" onClick=${() => retry([letter])}>Deliver again</button>` },
      ]} /></${Panel}>`
}

// Who asked for what, newest first.
import { html } from '../../vendor/preact.js'
import { useGet } from '../api.js'
import { useValue } from '../observable.js'
import { Link, refine } from '../router.js'
import { session } from '../session.js'
import { Empty, Head, Note, Panel, Trouble } from '../ui/notes.js'
import { Status } from '../ui/status.js'
import { Table } from '../ui/table.js'
import { Ago } from '../ui/time.js'

export function Audit({ query }) {
  const { who } = useValue(session)
  const operates = who.scopes.includes('operate')
  const read = useGet('/v1/audit', { count: 1000 }, { everyMs: 15_000, skip: !operates })
  if (!operates) return html`<${Head} title="Audit" /><${Note} tone="quiet">The audit needs the scope <code>operate</code>.</${Note}>`
  const wanted = (query.q ?? '').toLowerCase()
  const rows = (read.value?.audit ?? []).filter(entry =>
    (!query.refused || entry.refused) && (!wanted || [entry.who, entry.what, entry.on, entry.told].join(' ').toLowerCase().includes(wanted)))
  return html`<${Head} title="Audit">Operators’ calls, written before they act; refused ones too</${Head}>
    <div class="filters">
      <input aria-label="Filter" placeholder="Who, what, on what" value=${query.q ?? ''} onInput=${event => refine({ q: event.target.value })} />
      <button type="button" class="chip" aria-pressed=${Boolean(query.refused)} onClick=${() => refine({ refused: query.refused ? '' : '1' })}><${Status} of="refused" /></button>
    </div>
    <${Trouble} problem=${read.problem} retry=${read.reload} />
    <${Panel} flush><${Table} label="Audit" rows=${rows} keyOf=${entry => `${entry.id} ${entry.tenant} ${entry.refused}`} tall=${20}
      empty=${html`<${Empty} title=${read.loading ? 'Reading …' : 'Nothing fits.'}>Pausing a lane, resolving an intent or logging in leaves a line here.</${Empty}>`}
      columns=${[
        { name: 'at', title: 'When', width: '92px', cell: entry => html`<${Ago} at=${entry.at} />` },
        { name: 'who', title: 'Who', width: 'minmax(0, 1.1fr)', cell: entry => html`<span title=${`${entry.who} from ${entry.origin}`}>${entry.who}</span>` },
        { name: 'what', title: 'What', width: 'minmax(0, 1.4fr)', cell: entry => html`<span class="mono" title=${entry.what}>${entry.what}</span>` },
        { name: 'on', title: 'On', wide: true, width: 'minmax(0, 1.3fr)', cell: entry => entry.what.includes('{lane}')
          ? html`<${Link} page="lane" query=${{ lane: entry.on.split(' ')[0] }} class="mono">${entry.on}</${Link}>` : html`<span class="mono" title=${entry.on}>${entry.on}</span>` },
        { name: 'told', title: 'With', wide: true, cell: entry => html`<span title=${entry.told}>${entry.told}</span>` },
        { name: 'refused', title: '', width: '110px', wide: true, cell: entry => entry.refused && html`<${Status} of="refused" word=${entry.refused} />` },
      ]} /></${Panel}>`
}

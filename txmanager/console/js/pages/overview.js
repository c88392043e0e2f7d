// What needs somebody, how fast it goes, and every lane as it works.
import { html, useEffect, useMemo, useState } from '../../vendor/preact.js'
import { useGet } from '../api.js'
import { count, grouped, laneName, span, words } from '../format.js'
import { events, lanes, onLook } from '../live.js'
import { useValue } from '../observable.js'
import { usePurses } from '../purses.js'
import { rates, throughput } from '../rates.js'
import { Link, go, refine } from '../router.js'
import { session } from '../session.js'
import { Balance, inWords } from '../ui/balance.js'
import { Chart } from '../ui/chart.js'
import { Empty, Head, Note, Panel } from '../ui/notes.js'
import { Status } from '../ui/status.js'
import { Table } from '../ui/table.js'
import { Ago, Since } from '../ui/time.js'

const STOPPED = ['quarantined', 'paused']

/** Lanes that wait for somebody, the worst first. */
export const stopped = all => [...all.values()]
  .filter(lane => STOPPED.includes(lane.state))
  .sort((a, b) => STOPPED.indexOf(a.state) - STOPPED.indexOf(b.state) || a.lane.localeCompare(b.lane))

export function Overview({ query }) {
  const all = useValue(lanes)
  const perLane = useValue(rates)
  const purses = usePurses()
  const shown = useMemo(() => [...all.values()]
    .filter(lane => (!query.pool || lane.pool === query.pool) && (!query.state || lane.state === query.state)
      && (!query.lane || lane.lane.includes(query.lane)))
    .sort((a, b) => a.pool.localeCompare(b.pool) || a.lane.localeCompare(b.lane)), [all, query.pool, query.state, query.lane])
  const total = (rows, field) => rows.reduce((sum, lane) => sum + lane[field], 0)
  const oldest = shown.reduce((at, lane) => (lane.depth && lane.oldest_ms ? Math.min(at, lane.seenAt - lane.oldest_ms) : at), Infinity)
  const perSecond = shown.reduce((sum, lane) => sum + (perLane.get(lane.lane) ?? 0), 0)
  return html`<${Head} title="Overview">${count(shown.length, 'lane')} in ${count(new Set(shown.map(lane => lane.pool)).size, 'pool')}</${Head}>
    <${NeedsYou} all=${all} purses=${purses.list} />
    <div class="tiles">
      <${Tile} name="Waiting" value=${grouped(total(shown, 'depth') - total(shown, 'unfinished'))} more="queued intents" />
      <${Tile} name="In flight" value=${grouped(total(shown, 'unfinished'))} more="signed, not final" />
      <${Tile} name="Landed per second" value=${perSecond.toFixed(1)} more="last 10 s" />
      <${Tile} name="Oldest" value=${oldest < Infinity ? html`<${Since} ms=${oldest} />` : '–'} more="in a queue" />
      <${Tile} name="Working lanes" value=${`${shown.filter(lane => lane.owner).length} of ${shown.length}`} more="have a worker" />
    </div>
    <${Charts} />
    <${Panel} title="Lanes" flush extra=${html`<${LaneFilters} all=${all} query=${query} />`}>
      <${Table} label="Lanes" columns=${COLUMNS(perLane, purses.byLane)} rows=${shown} keyOf=${lane => lane.lane} tall=${16}
        open=${lane => go('lane', { lane: lane.lane })}
        empty=${all.size
          ? html`<${Empty} title="No lane fits."><button class="plain" onClick=${() => refine({ pool: '', state: '', lane: '' })}>Show all lanes</button></${Empty}>`
          : html`<${Empty} title="No lane yet.">A worker registers its signing keys as lanes: start one with <code>txmanager worker</code>.</${Empty}>`} />
    </${Panel}>
    <${Recent} />`
}

const Tile = ({ name, value, more }) => html`<div class="tile"><span>${name}</span><b>${value}</b><small>${more}</small></div>`

const COLUMNS = (perLane, pursesOf) => [
  { name: 'lane', title: 'Lane', width: 'minmax(0, 2fr)', cell: lane => html`<${Link} page="lane" query=${{ lane: lane.lane }} class="mono" title=${lane.lane}>${laneName(lane.lane)}</${Link}>` },
  { name: 'pool', title: 'Pool', wide: true, width: 'minmax(70px, 0.6fr)', cell: lane => lane.pool },
  { name: 'state', title: 'State', width: '118px', cell: lane => html`<${Status} of=${lane.state} title=${lane.reason} />` },
  { name: 'depth', title: 'Queue', right: true, width: '70px', cell: lane => grouped(lane.depth) },
  { name: 'flight', title: 'In flight', right: true, width: '70px', wide: true, cell: lane => grouped(lane.unfinished) },
  { name: 'rate', title: 'Per second', right: true, width: '84px', wide: true, cell: lane => (perLane.get(lane.lane) ?? 0).toFixed(1) },
  { name: 'oldest', title: 'Oldest', right: true, width: '90px', wide: true, cell: lane => lane.depth && lane.oldest_ms ? html`<${Since} ms=${lane.seenAt - lane.oldest_ms} />` : html`<span class="faint">–</span>` },
  { name: 'balance', title: 'Balance', right: true, width: 'minmax(130px, 1fr)', wide: true, cell: lane => html`<${Balance} purses=${pursesOf.get(lane.lane)} />` },
  { name: 'owner', title: 'Worker', wide: true, width: 'minmax(90px, 1fr)', cell: lane => lane.owner ? html`<span title=${lane.owner}>${lane.owner}</span>` : html`<span class="faint">none</span>` },
]

function LaneFilters({ all, query }) {
  const pools = [...new Set([...all.values()].map(lane => lane.pool))].sort()
  const states = [...new Set([...all.values()].map(lane => lane.state))].sort()
  const pick = (name, title, options) => html`<select aria-label=${title} value=${query[name] ?? ''} onChange=${event => refine({ [name]: event.target.value })}>
    <option value="">${title}</option>${options.map(option => html`<option key=${option} value=${option}>${option}</option>`)}</select>`
  return html`<div class="filters">
    <input aria-label="Filter lanes" placeholder="Filter" value=${query.lane ?? ''} onInput=${event => refine({ lane: event.target.value })} />
    ${pools.length > 1 && pick('pool', 'All pools', pools)}${states.length > 1 && pick('state', 'All states', states)}
  </div>`
}

/** Everything that waits for a person, in one list, on top. */
function NeedsYou({ all, purses }) {
  const { who } = useValue(session)
  const operates = who.scopes.includes('operate')
  const ready = useGet('/readyz', {}, { everyMs: 30_000 })
  const held = useGet('/v1/intents', { status: 'held', limit: 50 }, { everyMs: 15_000 })
  const dead = useGet('/v1/webhooks/dead', {}, { everyMs: 30_000, skip: !operates })
  useEffect(() => onLook(look => look.events.some(event => event.status === 'held') && held.reload()), [])
  const alone = [...all.values()].filter(lane => lane.depth && !lane.owner && lane.state === 'active')
  const holds = held.value?.intents ?? []
  const letters = dead.value?.dead ?? []
  const low = purses.filter(purse => purse.is_low)
  const checks = Object.entries(ready.value?.checks ?? {}).filter(([name, check]) => !check.ok && !(name.startsWith('pool:') && alone.length))
  const items = [
    ...stopped(all).slice(0, 20).map(lane => html`<li key=${lane.lane}><${Status} of=${lane.state} />
      <${Link} page="lane" query=${{ lane: lane.lane }} class="mono">${laneName(lane.lane)}</${Link}>
      <span>${lane.reason}</span><${Waiting} count=${lane.depth} /></li>`),
    ...holds.slice(0, 10).map(record => html`<li key=${record.life}><${Status} of="held" />
      <${Link} page="intent" query=${{ key: record.idempotency_key, pool: record.pool, tenant: record.tenant }} class="mono">${record.idempotency_key}</${Link}>
      <span>${words(record.error?.reason ?? record.error?.message ?? 'waits for an operator')}</span><em class="faint"><${Ago} at=${record.updated_at} /></em></li>`),
    holds.length > 10 && html`<li key="more"><${Link} page="intents" query=${{ status: 'held' }}>All held intents</${Link}></li>`,
    ...low.slice(0, 10).map(purse => html`<li key=${`low ${purse.purse} ${purse.kind}`}><${Status} of="degraded" word="low balance" />
      <${Link} page="lane" query=${{ lane: purse.lanes[0] }} class="mono">${laneName(purse.purse)}</${Link}>
      <span>${inWords(purse)}</span><em class="faint">pays for ${count(purse.lanes.length, 'lane')}</em></li>`),
    letters.length > 0 && html`<li key="dead"><${Status} of="failed" word="undelivered" /><${Link} page="webhooks">${count(letters.length, 'webhook event')}</${Link}>
      <span>no target took ${letters.length === 1 ? 'it' : 'them'}</span></li>`,
    ...[...new Set(alone.map(lane => lane.pool))].map(pool => html`<${Alone} key=${`alone ${pool}`} pool=${pool} lanes=${alone.filter(lane => lane.pool === pool)} />`),
    ...checks.map(([name, check]) => html`<li key=${name}><${Status} of="degraded" word=${name.replace(':', ' ')} /><span>${check.detail}</span></li>`),
  ].filter(Boolean)
  if (!items.length) return html`<${Note} tone="good"><strong>Nothing needs you.</strong> All lanes work, nothing is held, every webhook was delivered.</${Note}>`
  return html`<${Panel} title="Needs you" flush><ul class="todo">${items}</ul></${Panel}>`
}

/** Lanes of a pool with work and without a worker. */
function Alone({ pool, lanes: [first, ...more] }) {
  const waiting = [first, ...more].reduce((sum, lane) => sum + lane.depth, 0)
  return html`<li><${Status} of="degraded" word="no worker" />
    ${more.length ? html`<${Link} page="overview" query=${{ pool }}>${count(more.length + 1, 'lane')} of pool ${pool}</${Link}>`
      : html`<${Link} page="lane" query=${{ lane: first.lane }} class="mono">${laneName(first.lane)}</${Link}>`}
    <span>no worker holds ${more.length ? 'them' : 'it'}</span><${Waiting} count=${waiting} /></li>`
}

const Waiting = ({ count: number }) => number > 0 && html`<em class="faint">${count(number, 'intent')} ${number === 1 ? 'waits' : 'wait'}</em>`

function Charts() {
  const series = useValue(throughput)
  const of = field => series.map(bucket => [bucket.at, bucket[field]])
  return html`<div class="two">
    <${Panel} title="Throughput"><${Chart} label="Intents that ended per second"
      series=${[{ name: 'done', tone: 'good', points: of('done') }, { name: 'failed', tone: 'bad', points: of('failed') }]}
      format=${value => `${value.toFixed(1)}/s`} empty="Measured from now on. With an archive it begins ten minutes ago." /></${Panel}>
    <${Panel} title="Time to the end"><${Chart} label="From acceptance to the end"
      series=${[{ name: 'median', tone: 'busy', points: of('median') }, { name: '95 of 100', tone: 'warn', points: of('p95') }]}
      format=${span} empty="Appears as soon as intents end." /></${Panel}>
  </div>`
}

/** The newest transitions. They stand still while the pointer is on them. */
function Recent() {
  const newest = useValue(events)
  const [still, setStill] = useState(null)
  const rows = still ?? newest
  return html`<div onMouseEnter=${() => setStill(newest)} onMouseLeave=${() => setStill(null)}>
    <${Panel} title="Just now" flush extra=${still && html`<span class="faint">paused under the pointer</span>`}>
      <${Table} label="Newest transitions" tall=${8} rows=${rows} keyOf=${event => event.id}
        open=${event => go('intent', { key: event.idempotency_key, pool: event.pool, tenant: event.tenant })}
        columns=${[
          { name: 'status', title: 'Status', width: '110px', cell: event => html`<${Status} of=${event.status} />` },
          { name: 'key', title: 'Intent', width: 'minmax(0, 2fr)', cell: event => html`<${Link} class="mono" page="intent" query=${{ key: event.idempotency_key, pool: event.pool, tenant: event.tenant }}>${event.idempotency_key}</${Link}>` },
          { name: 'lane', title: 'Lane', wide: true, cell: event => html`<span class="mono faint">${laneName(event.lane)}</span>` },
          { name: 'error', title: 'Error', wide: true, width: 'minmax(0, 0.8fr)', cell: event => event.error ?? '' },
          { name: 'at', title: 'When', right: true, width: '90px', cell: event => html`<${Ago} at=${event.at} />` },
        ]}
        empty=${html`<${Empty} title="Quiet.">Transitions appear here the moment they happen. Submit something: <code>txmanager submit --help</code>.</${Empty}>`} />
    </${Panel}></div>`
}

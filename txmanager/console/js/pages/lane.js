// One lane: why it stands still, what waits in it, and the operator's verbs, each with what it risks.
import { html, useEffect } from '../../vendor/preact.js'
import { call, lanePath, useGet } from '../api.js'
import { count, grouped, laneName, words } from '../format.js'
import { lanes, onLook } from '../live.js'
import { useValue } from '../observable.js'
import { usePurses } from '../purses.js'
import { rates } from '../rates.js'
import { Link, go } from '../router.js'
import { session } from '../session.js'
import { Balance } from '../ui/balance.js'
import { confirm } from '../ui/confirm.js'
import { Id } from '../ui/copy.js'
import { Evidence } from '../ui/evidence.js'
import { Empty, Facts, Head, Note, Panel, Trouble } from '../ui/notes.js'
import { Status } from '../ui/status.js'
import { Table } from '../ui/table.js'
import { Ago, Since } from '../ui/time.js'

const VERBS = {
  pause: { title: 'Pause', from: ['active', 'draining'], what: 'It signs nothing new. What was sent is still followed, new intents still queue.', risk: 'Intents wait until somebody resumes it.' },
  resume: { title: 'Resume', from: ['paused', 'draining', 'quarantined'], what: 'It signs again, from where it stopped.', risk: 'Of a quarantined lane: the reason may still hold. Read it first; the next intent is signed at once.' },
  drain: { title: 'Drain', from: ['active', 'paused'], what: 'New intents go to other lanes. What is queued here is worked off.', risk: 'With no other active lane in the pool, new intents are refused.' },
  rebaseline: { title: 'Rebaseline', from: ['active', 'paused', 'quarantined'], what: 'It goes on from the chain’s nonce.', risk: 'You vouch that nothing of ours is lost: an intent that was paid and is queued again is paid twice. See the runbook.', tone: 'bad' },
  close: { title: 'Close', from: ['draining'], what: 'It is retired for ever, once it is empty.', risk: 'Its key can never serve again.', tone: 'bad' },
}

export function Lane({ query: { lane: id } }) {
  const { who } = useValue(session)
  const live = useValue(lanes).get(id)
  const perSecond = useValue(rates).get(id) ?? 0
  const purses = usePurses().byLane.get(id) ?? []
  const read = useGet(lanePath(id), {}, { skip: Boolean(live) })
  const queue = useGet('/v1/intents', { lane: id, limit: 500 }, { everyMs: 20_000 })
  useEffect(() => onLook(look => look.events.some(event => event.lane === id) && queue.reload()), [id])
  const lane = live ?? read.value
  if (!lane) {
    return read.loading ? html`<div class="empty">Reading …</div>`
      : html`<${Empty} title=${`No lane ${id}`}><${Link} page="overview">Show all lanes</${Link}></${Empty}>`
  }
  const steers = who.scopes.includes('operate') && who.whole
  const all = queue.value?.intents ?? []
  const flying = all.filter(record => ['inflight', 'held'].includes(record.status))
  const waiting = all.filter(record => record.status === 'queued').reverse()
  const stopped = ['paused', 'quarantined'].includes(lane.state)
  return html`<${Head} title=${html`<${Id} text=${id} shown=${laneName(id)} />`}
      verbs=${steers && Object.entries(VERBS).filter(([, verb]) => verb.from.includes(lane.state)).map(([name, verb]) =>
        html`<button type="button" key=${name} class=${name === 'resume' && lane.state !== 'quarantined' ? 'primary' : ''} onClick=${() => steer(lane, name, verb)}>${verb.title} …</button>`)}>
      <${Status} of=${lane.state} /> · pool ${lane.pool}${lane.keyless ? ' · keyless: its callers sign' : ''}
    </${Head}>
    ${lane.reason && html`<${Note} tone=${lane.state === 'quarantined' ? 'bad' : 'warn'}><strong>${stopped ? `${lane.state}: ` : ''}</strong>${lane.reason}
      ${Object.keys(lane.evidence ?? {}).length > 0 && html`<${Evidence} of=${lane.evidence} />`}</${Note}>`}
    <${Panel} title="Facts"><${Facts} of=${[
      ['Worker', lane.owner || 'none holds it'],
      ['Queue', count(lane.depth, 'intent')],
      ['In flight', grouped(lane.unfinished)],
      ['Landed per second', perSecond.toFixed(1)],
      ['Oldest', lane.depth && lane.oldest_ms && lane.seenAt ? html`<${Since} ms=${lane.seenAt - lane.oldest_ms} />` : null],
      ...(purses.length ? purses : [null]).map(purse => [purse && purse.kind !== 'account' ? `Balance: ${words(purse.kind)}` : 'Balance', purse && html`<${Balance} purses=${[purse]} />`]),
      ['Next nonce', lane.cursor === null ? null : html`<span class="mono">${lane.cursor}</span>`],
      ['Highest final nonce', lane.landed === null ? null : html`<span class="mono">${lane.landed}</span>`],
      ['Take-overs', grouped(lane.epoch)],
    ]} /></${Panel}>
    <${Trouble} problem=${queue.problem} retry=${queue.reload} />
    <${Panel} title="In flight and held" flush>
      <${Records} label="In flight and held" rows=${flying} empty=${html`<${Empty} title="Nothing in flight.">Signed intents stand here until they are final.</${Empty}>`} />
    </${Panel}>
    <${Panel} title="Queue" flush extra=${html`<${Link} page="intents" query=${{ lane: id }}>All intents of this lane</${Link}>`}>
      <${Records} label="Queue, first to be signed on top" rows=${waiting} empty=${html`<${Empty} title="The queue is empty.">New intents of the pool are spread over its active lanes.</${Empty}>`} />
    </${Panel}>`
}

const Records = ({ label, rows, empty }) => html`<${Table} label=${label} rows=${rows} keyOf=${record => record.life} tall=${10} empty=${empty}
  open=${record => go('intent', { key: record.idempotency_key, pool: record.pool, tenant: record.tenant })}
  columns=${[
    { name: 'status', title: 'Status', width: '112px', cell: record => html`<${Status} of=${record.status} />` },
    { name: 'key', title: 'Key', width: 'minmax(0, 2fr)', cell: record => html`<${Link} class="mono" page="intent" query=${{ key: record.idempotency_key, pool: record.pool, tenant: record.tenant }}>${record.idempotency_key}</${Link}>` },
    { name: 'kind', title: 'Kind', wide: true, cell: record => record.kind },
    { name: 'nonce', title: 'Nonce', right: true, wide: true, cell: record => html`<span class="mono">${record.nonce ?? '–'}</span>` },
    { name: 'tries', title: 'Attempts', right: true, width: '76px', wide: true, cell: record => record.attempts.length },
    { name: 'at', title: 'Accepted', right: true, width: '92px', cell: record => html`<${Ago} at=${record.created_at} />` },
  ]} />`

const steer = (lane, name, verb) => confirm({
  title: `${verb.title} ${laneName(lane.lane)}?`, verb: verb.title, word: name, tone: verb.tone ?? 'warn',
  body: html`<p>${verb.what}</p><p class="faint">${count(lane.depth, 'intent')} in its queue, ${grouped(lane.unfinished)} in flight.</p>`,
  risk: verb.risk,
  fields: name === 'pause' ? [{ name: 'reason', label: 'Why; everybody who looks at the lane sees it' }] : [],
  act: async ({ reason }) => {
    await call('POST', lanePath(lane.lane, name), name === 'pause' ? { body: { reason: reason ?? '' } } : {})
  },
})

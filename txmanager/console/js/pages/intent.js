// One intent: its whole life as a timeline, what it asked for, and what can be decided about it.
import { html, useEffect, useState } from '../../vendor/preact.js'
import { authorized, call, intentPath, queryText, useGet } from '../api.js'
import { coins, laneName, words } from '../format.js'
import { onLook } from '../live.js'
import { locate } from '../locate.js'
import { useValue } from '../observable.js'
import { Link, go } from '../router.js'
import { session } from '../session.js'
import { explorerOf, unitOf } from '../system.js'
import { confirm } from '../ui/confirm.js'
import { Copy, Id } from '../ui/copy.js'
import { Evidence } from '../ui/evidence.js'
import { Empty, Facts, Head, Json, Note, Panel, Trouble } from '../ui/notes.js'
import { Status } from '../ui/status.js'
import { Ago } from '../ui/time.js'
import { Timeline } from '../ui/timeline.js'

const ENDED = ['done', 'failed', 'cancelled']
const PURPOSES = {
  first: 'Signed, written ahead, sent', resign: 'Signed again at a new nonce', replace: 'Replaced with a higher fee',
  noop: 'No-op signed to use up the nonce', given: 'Signed by the caller',
}
const RUNNING = {
  queued: 'Waits for its turn in the lane.', inflight: 'Sent, and followed until it is final.',
  held: 'Waits for an operator; its transactions are still followed.',
}

export function Intent({ query: { key, pool, tenant } }) {
  const at = { pool, tenant }
  const read = useGet(intentPath(key), at)
  const listed = useGet('/v1/intents', { key_prefix: key, pool, tenant, limit: 20 })
  const past = usePast(key, at)
  const { who } = useValue(session)
  useEffect(() => {
    if (tenant || who.tenant !== '*' || who.tenants.length < 2) return
    locate(key, pool).then(found => found && go('intent', found, { replace: true }), () => {})
  }, [key, pool, tenant])
  useEffect(() => onLook(look => {
    const ours = look.events.some(event => event.idempotency_key === key && (!pool || event.pool === pool))
    if (ours || (look.missed && !look.all)) {
      read.reload()
      past.reload()
    }
  }), [key, pool])
  const record = read.value
  if (!record) {
    return read.loading ? html`<div class="empty">Reading …</div>` : html`<${Trouble} problem=${read.problem} retry=${read.reload} />
      <${Empty} title=${`No intent ${key}`}>It was never accepted, or its retention is over.
        <${Link} page="intents" query=${{ key_prefix: key }}>Look for keys that begin like it</${Link}></${Empty}>`
  }
  const payload = listed.value?.intents.find(one => one.idempotency_key === key && one.pool === record.pool)?.payload
  const ended = ENDED.includes(record.status)
  const operates = who.scopes.includes('operate')
  const submits = who.scopes.includes('submit')
  const verbs = html`
    ${!ended && (operates || submits) && html`<button type="button" onClick=${() => cancel(record, at, read.reload)}>Cancel …</button>`}
    ${record.status === 'held' && operates && html`<button type="button" class="primary" onClick=${() => resolve(record, at, read.reload)}>Resolve …</button>`}
    ${submits && html`<button type="button" disabled=${listed.loading && !listed.value} onClick=${() => again(record, payload)}>Submit again …</button>`}`
  return html`<${Head} title=${html`<${Id} text=${key} />`} verbs=${verbs}>
      <${Status} of=${record.status} /> · ${record.kind} · accepted <${Ago} at=${record.created_at} />
    </${Head}>
    <${Trouble} problem=${read.problem} retry=${read.reload} />
    ${record.status === 'held' && html`<${Held} record=${record} />`}
    ${record.error && record.status === 'failed' && html`<${Failure} error=${record.error} lane=${record.lane} />`}
    <div class="two">
      <div class="stack">
        <${Panel} title="Life"><${Timeline} moments=${momentsOf(record, past.events)} running=${RUNNING[record.status]} /></${Panel}>
        <${Panel} title="Payload">${payload ? html`<${Json} value=${payload} />`
          : html`<p class="faint">${listed.loading && !listed.value ? 'Reading …' : 'Ended intents keep their payload only with an archive: set [archive] in the configuration.'}</p>`}</${Panel}>
      </div>
      <div class="stack">
        <${Panel} title="Facts"><${Facts} of=${[
          ['Pool', record.pool],
          tenant && ['Tenant', tenant],
          ['Lane', html`<${Link} page="lane" query=${{ lane: record.lane }} class="mono">${laneName(record.lane)}</${Link}><${Copy} text=${record.lane} />`],
          ['Nonce', record.nonce === null ? null : html`<span class="mono">${record.nonce}</span>`],
          ['Transaction', record.tx_hash && html`<${Hash} hash=${record.tx_hash} lane=${record.lane} />`],
          record.cost !== undefined && ['Cost', html`<span class="num" title=${record.cost}>${coins(record.cost, unitOf(record.lane))}</span>`],
          ['Accepted', html`<${Ago} at=${record.created_at} />`],
          ['Last change', html`<${Ago} at=${record.updated_at} />`],
        ]} /></${Panel}>
        ${record.outcome?.result && html`<${Panel} title="Result"><${Json} value=${record.outcome.result} /></${Panel}>`}
        ${Object.keys(record.metadata ?? {}).length > 0 && html`<${Panel} title="Metadata"><${Json} value=${record.metadata} /></${Panel}>`}
      </div>
    </div>`
}

/** Events that the ledger still has; the stream of the page tells the later ones. */
function usePast(key, query) {
  const [events, setEvents] = useState([])
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    const aborting = new AbortController()
    readPast(`${intentPath(key, 'events')}${queryText(query)}`, aborting, found => setEvents(found))
    return () => aborting.abort()
  }, [key, query.pool, query.tenant, turn])
  return { events, reload: () => setTurn(n => n + 1) }
}

async function readPast(path, aborting, told) {
  const found = []
  try {
    const reply = await fetch(path, { headers: authorized(), signal: aborting.signal })
    if (!reply.ok || !reply.body) return
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader()
    const patience = setTimeout(() => aborting.abort(), 1500) // a live intent's stream stays open: one page, one stream
    for (let left = ''; ;) {
      const { value, done } = await reader.read()
      if (done) break
      const parts = (left + value).split('\n\n')
      left = parts.pop()
      for (const part of parts) {
        const line = part.split('\n').find(text => text.startsWith('data: '))
        if (line) found.push(JSON.parse(line.slice(6)))
      }
      told([...found])
    }
    clearTimeout(patience)
  } catch { /* what came so far is shown */ }
}

function momentsOf(record, events) {
  const moments = [{ at: Date.parse(record.created_at), mark: 'accepted', title: 'Accepted', detail: html`<p>Durably stored, in the queue of its lane.</p>` }]
  for (const attempt of record.attempts) {
    moments.push({
      at: Date.parse(attempt.signed_at), mark: attempt.dead ? 'dead' : 'signed', title: PURPOSES[attempt.purpose] ?? attempt.purpose,
      detail: html`<p>Nonce <span class="mono">${attempt.nonce}</span> · <${Hash} hash=${attempt.tx_hash} lane=${record.lane} /></p>
        ${attempt.dead && html`<details><summary>Can never land: ${words(attempt.dead.cause ?? 'proven')}</summary><${Json} value=${attempt.dead} /></details>`}`,
    })
  }
  for (const event of events) {
    if (event.status === 'held') moments.push({ at: Date.parse(event.at), mark: 'held', title: 'Held', detail: event.error && html`<p>${words(event.error)}</p>` })
  }
  moments.sort((a, b) => a.at - b.at)
  if (ENDED.includes(record.status)) {
    const { block_hash: hash, block_number: height } = record.outcome?.result ?? {}
    const block = hash ?? height
    const titles = { done: 'Final on chain', failed: 'Failed', cancelled: 'Cancelled' }
    moments.push({ at: Date.parse(record.updated_at), mark: record.status, title: titles[record.status],
      detail: html`${record.error && html`<p>${record.error.message ?? record.error.code}</p>`}
        ${record.tx_hash && html`<p><${Hash} hash=${record.tx_hash} lane=${record.lane} /></p>`}
        ${block && html`<p>Block <${Id} text=${String(block)} /></p>`}` })
  }
  return moments
}

function Hash({ hash, lane }) {
  const explorer = explorerOf(lane, hash)
  return html`<${Id} text=${hash}>${explorer ? html`<a href=${explorer} target="_blank" rel="noreferrer noopener">${hash}</a>` : hash}</${Id}>`
}

function evidenceOf(error) {
  const { code, reason, ...rest } = error ?? {}
  return rest
}

const Held = ({ record }) => html`<${Note} tone="warn"><strong>Held: ${words(record.error?.reason ?? 'an operator must decide')}.</strong>${' '}
  It is neither paid twice nor lost while it waits. If one of its transactions lands, it ends done by itself.
  <details><summary>Evidence</summary><${Evidence} of=${evidenceOf(record.error)} /></details></${Note}>`

function Failure({ error, lane }) {
  return html`<${Note} tone="bad"><strong>${words(error.code)}:</strong> ${error.message}
    ${error.spent !== undefined && html`<div>Spent: <span class="mono">${coins(error.spent, unitOf(lane))}</span>.
      ${error.new_key_helps ? 'A new key can help.' : 'A new key does not help by itself.'} ${error.hint ?? ''}</div>`}</${Note}>`
}

const cancel = (record, query, done) => confirm({
  title: 'Cancel this intent?', verb: 'Cancel it', tone: 'bad',
  body: html`<p class="mono">${record.idempotency_key}</p>`,
  risk: record.status === 'queued'
    ? 'It ends cancelled at once. Its key stays cancelled: submit again under a new one.'
    : 'It is in flight. Its worker tries to stop it; if its transaction lands first, it ends done.',
  act: async () => { await call('POST', intentPath(record.idempotency_key, 'cancel'), { query }); done() },
})

const VERBS = {
  track: ['Track', 'Look again and go on by itself if the chain tells how it ended. It risks nothing.'],
  kill: ['Kill', 'Use up its nonce with a no-op, then end it once that is final. If its transaction lands first, it ends done.'],
  resign: ['Sign again', 'Only with proof that every earlier transaction is dead. Without proof it stays held.'],
  fail: ['Fail', 'Only with proof that every transaction is dead. Its key stays failed.'],
}

function resolve(record, query, done) {
  const act = verb => async () => { await call('POST', intentPath(record.idempotency_key, 'resolve'), { query, body: { verb } }); done() }
  const choose = verb => confirm({
    title: `${VERBS[verb][0]}: ${record.idempotency_key}`, verb: VERBS[verb][0], word: verb === 'track' ? undefined : verb,
    body: html`<p>The lane's worker carries it out, with the proof it needs.</p>`, risk: VERBS[verb][1], act: act(verb),
  })
  confirm({
    title: 'Resolve this held intent', verb: 'Track',
    body: html`<p>Held because: <strong>${words(record.error?.reason ?? 'unknown')}</strong>. Choose what its worker does:</p>
      <div class="stack">${Object.entries(VERBS).map(([verb, [title, words]]) => html`<div key=${verb}>
        <button type="button" onClick=${() => choose(verb)}>${title} …</button> <span class="faint">${words}</span></div>`)}</div>`,
    act: act('track'),
  })
}

const again = (record, payload) => confirm({
  title: 'Submit again under a new key', verb: 'Submit',
  body: html`<p>This is a new intent. The old one stays as it is.</p>`,
  risk: 'If the old one still lands, the effect is there twice: wait until it has ended.',
  fields: [
    { name: 'key', label: 'Idempotency key', value: `${record.idempotency_key}-again-${Date.now().toString(36)}`.slice(-255), mono: true },
    { name: 'payload', label: `Payload (${record.kind})${payload ? '' : ': the old one is no longer kept, write it here'}`, value: JSON.stringify(payload ?? {}, null, 2), rows: 10 },
  ],
  act: async ({ key, payload }) => {
    const body = { kind: record.kind, pool: record.pool, payload: JSON.parse(payload), metadata: record.metadata }
    await call('POST', '/v1/intents', { body, key })
    go('intent', { key, pool: record.pool })
  },
})

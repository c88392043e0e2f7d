// The list: filters in the URL, failures by code, and cancelling all that fit, with the count and a dry run first.
import { html, useEffect, useState } from '../../vendor/preact.js'
import { PASSING, RETRY_MS, call, intentPath } from '../api.js'
import { count, grouped, laneName, short } from '../format.js'
import { onLook } from '../live.js'
import { useValue } from '../observable.js'
import { Link, go, refine } from '../router.js'
import { session } from '../session.js'
import { confirm } from '../ui/confirm.js'
import { Empty, Head, Note, Panel, Trouble } from '../ui/notes.js'
import { Status } from '../ui/status.js'
import { Table } from '../ui/table.js'
import { Ago } from '../ui/time.js'

const STATUSES = ['queued', 'inflight', 'held', 'done', 'failed', 'cancelled']
const ENDED = ['done', 'failed', 'cancelled']
const FILTERS = {
  key_prefix: 'Key begins with', hash: 'Transaction hash', receiver: 'Receiver', error: 'Error code', kind: 'Kind',
  pool: 'Pool', lane: 'Lane', since: 'Accepted since', until: 'Accepted before',
}
const PAGE = 200
const MOST_CANCELLED = 10_000
const AT_ONCE = 4
const MOST_TRIES = 30

const nameOf = record => `${record.tenant}/${record.pool}/${record.idempotency_key}`
const openPage = record => ['intent', { key: record.idempotency_key, pool: record.pool, tenant: record.tenant }]

export function Intents({ query }) {
  const filters = Object.fromEntries(Object.entries(query).filter(([name]) => name === 'status' || name === 'tenant' || name in FILTERS))
  const list = useList(filters)
  const { who } = useValue(session)
  const [problem, setProblem] = useState(null)
  const canCancel = who.scopes.includes('submit') || who.scopes.includes('operate')
  return html`<${Head} title="Intents" verbs=${canCancel && html`<button type="button" disabled=${!list.rows.length || ENDED.includes(query.status)}
      onClick=${() => setProblem(null) ?? cancelAll(filters, list.reload).catch(setProblem)}>Cancel all matching …</button>`}>
      ${list.rows.length ? `${count(list.rows.length, 'intent')}${list.cursor ? ' and more' : ''}, newest first` : 'Newest first'}
    </${Head}>
    <${Filters} query=${query} tenants=${who.tenants} />
    <${Trouble} problem=${problem ?? list.problem} retry=${list.reload} />
    ${list.archived === false && html`<${Note} tone="quiet">Without an archive only live intents are listed. Ended ones are found by their key.
      Set <code>[archive]</code> in the configuration and run <code>txmanager archiver</code> to keep them.</${Note}>`}
    ${list.partial && html`<${Note}>The search stopped after it had looked at enough. Narrow the filters, or scroll on.</${Note}>`}
    ${(query.status === 'failed' || query.error) && html`<${ByCode} rows=${list.rows} query=${query} more=${Boolean(list.cursor)} />`}
    ${list.fresh > 0 && html`<${Note} tone="busy">${count(list.fresh, 'new transition')} since.
      <button type="button" class="plain" onClick=${list.reload}>Show them</button></${Note}>`}
    <${Panel} flush>
      <${Table} label="Intents" rows=${list.rows} keyOf=${nameOf} columns=${COLUMNS} tall=${18} end=${list.more}
        open=${record => go(...openPage(record))}
        empty=${list.loading ? html`<div class="empty">Reading …</div>` : html`<${Empty} title=${Object.keys(filters).length ? 'No intent fits these filters.' : 'No intent yet.'}>
          ${Object.keys(filters).length
            ? html`<button type="button" class="plain" onClick=${() => go('intents', {})}>Clear the filters</button>`
            : html`Submit one: <code>txmanager submit near.transfer '{"receiver_id": "bob.near", "amount": "1"}' --key first</code>`}</${Empty}>`} />
    </${Panel}>`
}

const COLUMNS = [
  { name: 'status', title: 'Status', width: '112px', cell: record => html`<${Status} of=${record.status} />` },
  { name: 'key', title: 'Key', width: 'minmax(0, 1.6fr)', cell: record => {
    const [page, query] = openPage(record)
    return html`<${Link} page=${page} query=${query} class="mono" title=${record.idempotency_key}>${record.idempotency_key}</${Link}>`
  } },
  { name: 'kind', title: 'Kind', wide: true, width: 'minmax(0, 0.85fr)', cell: record => html`<span title=${record.kind}>${record.kind}</span>` },
  { name: 'lane', title: 'Lane', wide: true, width: 'minmax(0, 1.4fr)', cell: record => html`<${Link} page="lane" query=${{ lane: record.lane }} class="mono" title=${record.lane}>${laneName(record.lane)}</${Link}>` },
  { name: 'hash', title: 'Transaction', wide: true, width: '138px', cell: record => record.tx_hash ? html`<span class="mono" title=${record.tx_hash}>${short(record.tx_hash)}</span>` : html`<span class="faint">–</span>` },
  { name: 'error', title: 'Error', wide: true, width: 'minmax(0, 1.4fr)', cell: record => html`<span title=${record.error?.message}>${record.error?.reason ?? record.error?.code ?? ''}</span>` },
  { name: 'at', title: 'Accepted', right: true, width: '92px', cell: record => html`<${Ago} at=${record.created_at} />` },
]

/** Pages of the list as one; statuses change in place as the stream tells them, rows do not move. */
function useList(filters) {
  const [rows, setRows] = useState([])
  const [state, setState] = useState({ loading: true })
  const [fresh, setFresh] = useState(0)
  const [turn, setTurn] = useState(0)
  const asked = JSON.stringify(filters)
  useEffect(() => {
    let over = false
    setState({ loading: true })
    call('GET', '/v1/intents', { query: { ...filters, limit: PAGE } }).then(page => {
      if (over) return
      setRows(page.intents)
      setFresh(0)
      setState({ ...page, loading: false })
    }, problem => over || setState({ problem, loading: false }))
    return () => { over = true }
  }, [asked, turn])
  useEffect(() => onLook(look => {
    if (look.missed && !look.all) setFresh(n => n + 1)
    if (!look.events.length) return
    const newest = new Map(look.events.map(event => [nameOf(event), event]))
    setRows(before => before.map(row => {
      const event = newest.get(nameOf(row)) ?? newest.get(`undefined/${row.pool}/${row.idempotency_key}`)
      return event ? { ...row, status: event.status, tx_hash: event.tx_hash ?? row.tx_hash,
        error: event.error ? { ...row.error, code: event.error } : row.error } : row
    }))
    setFresh(n => n + look.events.filter(event => event.status === 'queued').length)
  }), [])
  const more = async () => {
    if (state.loading || !state.cursor) return
    setState({ ...state, loading: true })
    try {
      const page = await call('GET', '/v1/intents', { query: { ...filters, limit: PAGE, cursor: state.cursor } })
      setRows(before => [...before, ...page.intents])
      setState({ ...page, loading: false })
    } catch (problem) {
      setState({ ...state, problem, loading: false })
    }
  }
  return { ...state, rows, fresh, more, reload: () => setTurn(n => n + 1) }
}

function Filters({ query, tenants }) {
  const [open, setOpen] = useState(Object.keys(query).some(name => name in FILTERS))
  const [typed, setTyped] = useState({})
  const apply = event => {
    event.preventDefault()
    refine(typed)
    setTyped({})
  }
  return html`<form class="stack" onSubmit=${apply}>
    <div class="chips" role="group" aria-label="Status">
      <button type="button" class="chip" aria-pressed=${!query.status} onClick=${() => refine({ status: '' })}>All</button>
      ${STATUSES.map(status => html`<button type="button" key=${status} class="chip" aria-pressed=${query.status === status}
        onClick=${() => refine({ status: query.status === status ? '' : status })}><${Status} of=${status} /></button>`)}
      <button type="button" class="plain" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? 'Fewer filters' : 'More filters'}</button>
    </div>
    ${open && html`<div class="filters">
      ${Object.entries(FILTERS).map(([name, title]) => html`<label key=${name}>${title}
        <input name=${name} value=${typed[name] ?? query[name] ?? ''} spellcheck="false" onInput=${event => setTyped({ ...typed, [name]: event.target.value.trim() })} /></label>`)}
      ${tenants.length > 1 && html`<label>Tenant<select value=${query.tenant ?? ''} onChange=${event => refine({ tenant: event.target.value })}>
        <option value="">all</option>${tenants.map(tenant => html`<option key=${tenant}>${tenant}</option>`)}</select></label>`}
      <button type="submit" class="primary">Apply</button>
      <button type="button" onClick=${() => { setTyped({}); go('intents', {}, { replace: true }) }}>Clear</button>
    </div>`}
  </form>`
}

/** The failures that were read, by code, the most frequent first; one of them is a filter. */
function ByCode({ rows, query, more }) {
  const counts = new Map()
  for (const { status, error } of rows) if (status === 'failed' && error?.code) counts.set(error.code, (counts.get(error.code) ?? 0) + 1)
  if (!counts.size) return null
  const most = Math.max(...counts.values())
  return html`<${Panel} title="Failures by code" extra=${html`<span class="faint">${more ? 'of the newest ' : 'of '}${count(rows.length, 'intent')}${more ? '; scroll down for more' : ''}</span>`}>
    <ul class="codes" aria-label="Failures by code">${[...counts].sort((a, b) => b[1] - a[1]).map(([code, n]) =>
    html`<li key=${code}><button type="button" class="plain mono" aria-pressed=${query.error === code}
        onClick=${() => refine({ error: query.error === code ? '' : code })}>${code}</button>
      <span class="meter-bar"><i class="bad" style=${{ width: `${(100 * n) / most}%` }}></i></span><b class="num">${grouped(n)}</b></li>`)}</ul>
  </${Panel}>`
}

/** A busy API or one that is away for a moment ends no work that was agreed to: cancelling again changes nothing. */
async function patiently(ask) {
  for (let n = 0; ; n += 1) {
    try {
      return await ask()
    } catch (problem) {
      if (!PASSING.includes(problem.status) || n >= MOST_TRIES) throw problem
      await new Promise(resolve => setTimeout(resolve, RETRY_MS))
    }
  }
}

/** Dry run first: read everything that fits and count what can be cancelled. Nothing is asked for before the word. */
async function cancelAll(filters, reload) {
  const found = []
  let cursor
  do {
    const page = await call('GET', '/v1/intents', { query: { ...filters, limit: 500, cursor } })
    found.push(...page.intents.filter(record => !ENDED.includes(record.status)))
    cursor = page.cursor
  } while (cursor && found.length < MOST_CANCELLED && !ENDED.includes(filters.status))
  if (!found.length) throw Object.assign(new Error('Nothing that fits can be cancelled.'), { advice: 'What has ended stays as it is.' })
  const by = status => found.filter(record => record.status === status).length
  const queued = by('queued')
  const rest = cursor && !ENDED.includes(filters.status)
  const named = Object.entries(filters).map(([name, value]) => `${name}=${value}`).join(', ') || 'no filter: every intent you may see'
  confirm({
    title: `Cancel ${count(found.length, 'intent')}?`,
    verb: `Cancel ${found.length}`,
    word: `cancel ${found.length}`,
    tone: 'bad',
    body: html`<p>Dry run, nothing was changed yet. What fits (${named}):</p>
      <ul><li>${count(queued, 'queued intent')}: ${queued === 1 ? 'ends' : 'end'} cancelled at once, nothing was signed.</li>
      <li>${count(by('inflight'), 'intent')} in flight: asked to stop; one that lands first ends done.</li>
      <li>${count(by('held'), 'held intent')}.</li></ul>
      ${rest && html`<p><strong>More fits:</strong> one run cancels ${grouped(found.length)}. Run it again for the rest.</p>`}`,
    risk: 'A cancelled key stays cancelled: its callers must submit again under a new key.',
    act: async (_, say) => {
      let done = 0
      let refused = 0
      const left = [...found]
      const work = async () => {
        for (let record = left.pop(); record; record = left.pop()) {
          const query = { pool: record.pool, tenant: record.tenant }
          await patiently(() => call('POST', intentPath(record.idempotency_key, 'cancel'), { query })).catch(problem => {
            if (problem.status !== 409 && problem.status !== 404) throw problem
            refused += 1 // it ended meanwhile
          })
          say(`${done += 1} of ${found.length}${refused ? `, ${refused} ended meanwhile` : ''}`)
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, work))
      reload()
    },
  })
}

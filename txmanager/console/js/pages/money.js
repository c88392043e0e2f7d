// What budgets leave, and what was spent.
import { html } from '../../vendor/preact.js'
import { useGet } from '../api.js'
import { coins, count, grouped, laneName, words } from '../format.js'
import { useValue } from '../observable.js'
import { usePurses } from '../purses.js'
import { Link, refine } from '../router.js'
import { system, unitOf } from '../system.js'
import { Balance } from '../ui/balance.js'
import { Empty, Head, Panel, Trouble } from '../ui/notes.js'
import { Status } from '../ui/status.js'
import { Table } from '../ui/table.js'
import { Ago } from '../ui/time.js'

const BY = ['day', 'pool', 'kind', 'token', 'tenant']
const NEARLY = 80

export function Money({ query }) {
  const budgets = useGet('/v1/budgets', {}, { everyMs: 10_000 })
  const networks = useValue(system)?.networks ?? []
  const rows = budgets.value?.budgets ?? []
  return html`<${Head} title="Money">Budgets are charged when an intent is accepted and corrected when it ends</${Head}>
    <${Trouble} problem=${budgets.problem} retry=${budgets.reload} />
    <${Panel} title="Budgets" flush><${Table} label="Budgets" rows=${rows} keyOf=${budget => budget.name} tall=${12}
      columns=${columnsFor(networks)}
      empty=${html`<${Empty} title=${budgets.loading && !budgets.value ? 'Reading …' : 'No budget.'}>A budget bounds what a token or a pool spends in a span of time:
        <code>budget = [{ network = "mainnet", amount = "10 NEAR", per = "1d" }]</code> in <code>[api.tokens.limits]</code> or <code>[pools.NAME.policy]</code>.</${Empty}>`} />
    </${Panel}>
    <${Balances} />
    <${Usage} by=${BY.includes(query.by) ? query.by : 'day'} networks=${networks} />`
}

/** What lanes pay from, the low ones first. */
function Balances() {
  const { list, readAt } = usePurses()
  const rows = [...list].sort((a, b) => b.is_low - a.is_low)
  return html`<${Panel} title="Balances" flush extra=${readAt && html`<span class="faint">read <${Ago} at=${readAt} /></span>`}>
    <${Table} label="Balances" rows=${rows} keyOf=${purse => `${purse.purse} ${purse.kind}`} tall=${10}
      columns=${[
        { name: 'purse', title: 'Paid from', width: 'minmax(0, 1.3fr)', cell: purse => html`<${Link} page="lane" query=${{ lane: purse.lanes[0] }} class="mono" title=${purse.purse}>${laneName(purse.purse)}</${Link}>` },
        { name: 'kind', title: 'Kind', wide: true, width: '90px', cell: purse => words(purse.kind) },
        { name: 'network', title: 'Network', wide: true, width: 'minmax(0, 0.8fr)', cell: purse => purse.network },
        { name: 'lanes', title: 'Pays for', right: true, wide: true, width: '90px', cell: purse => count(purse.lanes.length, 'lane') },
        { name: 'low', title: 'Low below', right: true, wide: true, width: 'minmax(0, 0.8fr)', cell: purse => purse.low === null ? html`<span class="faint">not set</span>` : coins(purse.low, unitOf(purse.lanes[0])) },
        { name: 'balance', title: 'Balance', right: true, width: 'minmax(150px, 1fr)', cell: purse => html`<${Balance} purses=${[purse]} />` },
      ]}
      empty=${html`<${Empty} title=${readAt ? 'No lane pays from anything yet.' : 'Reading the chains …'}>The account of each lane, its gas keys and allowances are listed here.</${Empty}>`} />
  </${Panel}>`
}

function columnsFor(networks) {
  const amount = field => budget => html`<span title=${`${budget[field]}`}>${coins(budget[field], networks.find(one => one.name === budget.network)?.unit)}</span>`
  return [
    { name: 'name', title: 'Budget', width: 'minmax(0, 1.5fr)', cell: budget => html`<span title=${budget.name}>${budget.name}</span>` },
    { name: 'used', title: 'Used', width: 'minmax(90px, 1fr)', cell: budget => html`<${Used} of=${budget} />` },
    { name: 'left', title: 'Left', right: true, width: 'minmax(120px, 1fr)', cell: amount('left') },
    { name: 'charged', title: 'Charged, not ended', right: true, wide: true, width: 'minmax(0, 1fr)', cell: amount('charged') },
    { name: 'spent', title: 'Spent', right: true, wide: true, width: 'minmax(0, 1fr)', cell: amount('spent') },
    { name: 'limit', title: 'Limit', right: true, wide: true, width: 'minmax(0, 1fr)', cell: amount('limit') },
    { name: 'per', title: 'Per', right: true, wide: true, width: '60px', cell: budget => budget.per },
  ]
}

function Used({ of: { limit, left, rebuilding } }) {
  if (rebuilding) return html`<${Status} of="paused" word="rebuilding" title="The ledger may have lost charges: nothing is accepted until it is rebuilt." />`
  const percent = BigInt(limit) > 0n ? Number(((BigInt(limit) - BigInt(left)) * 100n) / BigInt(limit)) : 100
  return html`<span class="meter"><span class="meter-bar"><i class=${percent >= NEARLY ? 'nearly' : ''} style=${{ width: `${Math.min(100, percent)}%` }}></i></span>${percent} %</span>`
}

/** What was spent, as the archive's daily books have it. */
function Usage({ by, networks }) {
  const usage = useGet('/v1/usage', { by })
  const missing = usage.problem?.status === 409
  const rows = usage.value?.usage ?? []
  const amount = field => row => html`<span title=${row[field]}>${coins(row[field], networks.find(one => one.lanes === row.network)?.unit)}</span>`
  const choose = html`<select aria-label="Usage by" value=${by} onChange=${event => refine({ by: event.target.value })}>
    ${BY.map(one => html`<option key=${one} value=${one}>by ${one}</option>`)}</select>`
  return html`<${Panel} title="Usage" flush extra=${!missing && choose}>
    <${Trouble} problem=${missing ? null : usage.problem} retry=${usage.reload} />
    <${Table} label="Usage" rows=${rows} keyOf=${row => [row.network, row.spending, row[by]].join(' ')} tall=${16}
      columns=${[
        { name: 'group', title: by[0].toUpperCase() + by.slice(1), width: 'minmax(0, 1.2fr)', cell: row => row[by] || html`<span class="faint">–</span>` },
        { name: 'network', title: 'Network', wide: true, cell: row => row.network },
        { name: 'spending', title: 'Went for', wide: true, cell: row => words(row.spending) },
        { name: 'count', title: 'Intents', right: true, width: '64px', cell: row => grouped(row.count) },
        { name: 'failed', title: 'Failed', right: true, wide: true, width: '76px', cell: row => grouped(row.failed) },
        { name: 'cost', title: 'Cost', right: true, width: 'minmax(130px, 1.2fr)', cell: amount('cost') },
        { name: 'deposits', title: 'Of it deposits', right: true, wide: true, width: 'minmax(0, 1.2fr)', cell: amount('deposits') },
      ]}
      empty=${missing
        ? html`<${Empty} title="No archive.">Usage is counted from the archive: set <code>[archive]</code> in the configuration and run <code>txmanager archiver</code>.</${Empty}>`
        : html`<${Empty} title=${usage.loading && !usage.value ? 'Reading …' : 'Nothing ended yet.'}>Every intent is counted when it ends, with what it cost.</${Empty}>`} />
  </${Panel}>`
}

// The parts around the lanes: workers, networks and their nodes, signers, who is logged in.
import { html, useState } from '../../vendor/preact.js'
import { call, useGet } from '../api.js'
import { count, words } from '../format.js'
import { useValue } from '../observable.js'
import { Link } from '../router.js'
import { session } from '../session.js'
import { Empty, Facts, Head, Note, Panel, Trouble } from '../ui/notes.js'
import { Status } from '../ui/status.js'
import { Table } from '../ui/table.js'
import { Ago } from '../ui/time.js'

export function System() {
  const { who } = useValue(session)
  const operates = who.scopes.includes('operate')
  const read = useGet('/v1/system', {}, { everyMs: 15_000 })
  const ready = useGet('/readyz', {}, { everyMs: 15_000 })
  const logins = useGet('/v1/sessions', {}, { everyMs: 30_000, skip: !operates })
  const [problem, setProblem] = useState(null)
  const told = read.value
  const checks = ready.value?.checks ?? {}
  const end = async login => {
    try {
      await call('DELETE', `/v1/sessions/${encodeURIComponent(login.id)}`)
    } catch (error) {
      setProblem(error)
    }
    logins.reload()
  }
  if (!told) return html`<${Head} title="System" /><${Trouble} problem=${read.problem} retry=${read.reload} />`
  return html`<${Head} title="System">txmanager ${told.version}</${Head}>
    <${Trouble} problem=${problem ?? read.problem ?? ready.problem} />
    ${ready.value?.status === 'unready' && html`<${Note} tone="bad"><strong>Not ready.</strong> No pool can work now; the parts below say why.</${Note}>`}
    <div class="two">
      <${Panel} title="Parts"><${Facts} of=${Object.entries(checks).map(([name, check]) => [name.replace(':', ' '),
        html`<${Status} of=${check.ok ? (check.reason ? 'degraded' : 'ok') : 'failed'} word=${words(check.reason ?? (check.ok ? 'works' : 'away'))} />
          ${check.detail && html`<div class="faint">${check.detail}</div>`}`])} /></${Panel}>
      <${Panel} title="Archive">${told.archive
        ? html`<${Facts} of=${[['Database', told.archive.database], ['Ended, not yet archived', told.archive.waiting === null ? null : count(told.archive.waiting, 'record')]]} />`
        : html`<${Empty} title="No archive.">Ended intents are forgotten after their retention. Set <code>[archive]</code> in the configuration and run <code>txmanager archiver</code>.</${Empty}>`}</${Panel}>
    </div>
    <${Panel} title="Workers" flush>${told.workers === null
      ? html`<${Empty} title="Not shown to this token.">Workers, nodes and signers are shown to operators of all tenants.</${Empty}>`
      : html`<${Table} label="Workers" rows=${told.workers} keyOf=${worker => worker.name} tall=${10}
        empty=${html`<${Empty} title="No worker is alive.">Intents are accepted and wait. Start one: <code>txmanager worker</code>.</${Empty}>`}
        columns=${[
          { name: 'name', title: 'Name', cell: worker => html`<span class="mono">${worker.name}</span>` },
          { name: 'serves', title: 'Can serve', right: true, width: '120px', cell: worker => count(worker.serves, 'lane') },
          { name: 'holds', title: 'Holds', right: true, width: '120px', cell: worker => count(worker.holds, 'lane') },
        ]} />`}</${Panel}>
    <${Panel} title="Networks" flush><${Table} label="Networks" rows=${told.networks} keyOf=${network => network.name} tall=${8}
      empty=${html`<${Empty} title="No network.">Add one: <code>[networks.NAME]</code>.</${Empty}>`}
      columns=${[
        { name: 'name', title: 'Network', width: 'minmax(0, 0.7fr)', cell: network => network.name },
        { name: 'state', title: 'Nodes answer', width: '120px', cell: network => {
          const check = checks[`chain:${network.name}`]
          return check ? html`<${Status} of=${check.ok ? 'ok' : 'failed'} word=${check.ok ? 'yes' : 'no'} title=${check.detail} />` : html`<span class="faint">not asked</span>`
        } },
        { name: 'chain', title: 'Chain', wide: true, width: 'minmax(0, 0.6fr)', cell: network => network.title },
        { name: 'nodes', title: 'Endpoints', width: 'minmax(0, 2fr)', wide: true, cell: network => network.endpoints?.map(node => `${node.host}${node.direct ? '' : ' (balancer)'}`).join(', ') ?? '–' },
        { name: 'pools', title: 'Pools', wide: true, cell: network => network.pools.map((pool, n) => html`${n > 0 && ', '}<${Link} page="overview" query=${{ pool }}>${pool}</${Link}>`) },
      ]} /></${Panel}>
    ${told.signers && html`<${Panel} title="Signers"><${Facts} of=${told.signers.map(signer => [signer.pool, signer.sources.join(', ') || 'callers sign'])} /></${Panel}>`}
    ${operates && html`<${Panel} title="Logged in" flush><${Table} label="Sessions" rows=${logins.value?.sessions ?? []} keyOf=${login => login.id} tall=${8}
      empty=${html`<${Empty} title="Nobody.">Sessions of the console are listed here, and can be ended.</${Empty}>`}
      columns=${[
        { name: 'name', title: 'Token', cell: login => html`${login.name}${login.own ? html` <span class="faint">(this one)</span>` : ''}` },
        { name: 'id', title: 'Session', wide: true, cell: login => html`<span class="mono">${login.id.slice(0, 8)}</span>` },
        { name: 'from', title: 'From', wide: true, cell: login => login.origin },
        { name: 'opened', title: 'Opened', right: true, width: '92px', cell: login => html`<${Ago} at=${login.opened_at} />` },
        { name: 'end', title: '', right: true, width: '76px', cell: login => html`<button type="button" onClick=${() => end(login)}>End</button>` },
      ]} /></${Panel}>`}`
}

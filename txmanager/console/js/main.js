// The frame around every page: navigation, search, the state of the stream, who is logged in.
import { html, render, useEffect, useRef, useState } from '../vendor/preact.js'
import { call } from './api.js'
import { count } from './format.js'
import { lanes, link, start } from './live.js'
import { locate } from './locate.js'
import { useValue } from './observable.js'
import { Audit } from './pages/audit.js'
import { Intent } from './pages/intent.js'
import { Intents } from './pages/intents.js'
import { Lane } from './pages/lane.js'
import { Login } from './pages/login.js'
import { Money } from './pages/money.js'
import { Overview, stopped } from './pages/overview.js'
import { System } from './pages/system.js'
import { Webhooks } from './pages/webhooks.js'
import { Link, go, place } from './router.js'
import { begin, leave, session } from './session.js'
import { Dialog } from './ui/confirm.js'
import { Empty, Note } from './ui/notes.js'

const PAGES = {
  overview: ['Overview', Overview],
  intents: ['Intents', Intents],
  money: ['Money', Money],
  webhooks: ['Webhooks', Webhooks],
  system: ['System', System],
  audit: ['Audit', Audit],
}
const INNER = { intent: ['Intent', Intent, 'intents'], lane: ['Lane', Lane, 'overview'] }

function App() {
  const { state, why } = useValue(session)
  if (state === 'starting') return html`<div class="login faint" role="status">${why ?? 'Logging in …'}</div>`
  return state === 'out' ? html`<${Login} why=${why} />` : html`<${Frame} />`
}

function Frame() {
  const { page, query } = useValue(place)
  const [title, Page, within] = PAGES[page] ?? INNER[page] ?? ['Not found', Missing]
  useEffect(() => { document.title = `${title} · txmanager` }, [title])
  return html`<div class="frame">
    <a class="skip" href="#content">Skip to the page</a>
    <${Side} page=${within ?? page} />
    <div class="main">
      <${Bar} />
      <main class="content" id="content"><${Connection} /><${Page} key=${page} query=${query} /></main>
    </div>
    <${Dialog} />
  </div>`
}

function Side({ page }) {
  const { who } = useValue(session)
  const needy = stopped(useValue(lanes)).length
  const nav = useRef(null)
  useEffect(() => nav.current.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' }), [page, needy])
  return html`<aside class="side">
    <${Link} page="overview" class="brand" aria-label="txmanager"><img src="/console/icon.svg" alt="" /><span>txmanager</span></${Link}>
    <nav aria-label="Pages" ref=${nav}>${Object.entries(PAGES).map(([name, [title]]) => html`<${Link} key=${name} page=${name}
      aria-current=${name === page ? 'page' : undefined}>${title}
      ${name === 'overview' && needy > 0 && html`<span class="badge" title=${`${count(needy, 'lane')} stopped`}>${needy}</span>`}</${Link}>`)}</nav>
    <div class="whoami"><strong>${who.name}</strong>
      <span>${who.tenant === '*' ? 'all tenants' : `tenant ${who.tenant}`} · ${who.scopes.join(', ')}</span>
      ${who.session_ends_at && html`<div><button type="button" onClick=${leave}>Log out</button></div>`}
    </div>
  </aside>`
}

function Bar() {
  const input = useRef(null)
  const [text, setText] = useState('')
  const [busy, setBusy] = useState(false)
  useEffect(() => {
    const focus = event => {
      if (event.key !== '/' || event.target.closest('input, textarea, select, dialog')) return
      event.preventDefault()
      input.current.focus()
      input.current.select()
    }
    document.addEventListener('keydown', focus)
    return () => document.removeEventListener('keydown', focus)
  }, [])
  const search = async event => {
    event.preventDefault()
    if (!text.trim() || busy) return
    setBusy(true)
    await find(text.trim())
    setBusy(false)
    input.current.blur()
  }
  return html`<div class="bar">
    <form role="search" onSubmit=${search}>
      <input ref=${input} type="search" value=${text} onInput=${event => setText(event.target.value)} aria-label="Search"
        placeholder="Search: key, transaction hash, receiver, error code" spellcheck="false" autocomplete="off" />
      <kbd aria-hidden="true">/</kbd>
    </form>
    <${LinkState} />
  </div>`
}

/** What somebody typed is an intent's key, a lane's, a hash, a receiver, an error code, or the beginning of a key. */
async function find(text) {
  if (lanes.value.has(text)) return go('lane', { lane: text })
  const found = await locate(text).catch(() => null)
  if (found) return go('intent', found)
  for (const filter of ['hash', 'receiver', 'error']) {
    try {
      const { intents } = await call('GET', '/v1/intents', { query: { [filter]: text, limit: 2 } })
      if (intents.length === 1 && filter === 'hash') {
        const [{ idempotency_key: key, pool, tenant }] = intents
        return go('intent', { key, pool, tenant })
      }
      if (intents.length) return go('intents', { [filter]: text })
    } catch { /* the list says so itself */ }
  }
  return go('intents', { key_prefix: text })
}

const LINK_WORDS = {
  off: 'not following', connecting: 'connecting …', live: 'live', lost: 'connection lost', away: 'ledger away',
}

function LinkState() {
  const { state, away } = useValue(link)
  const shown = away ? 'away' : state
  return html`<span class=${`linkstate ${shown}`} role="status"><i aria-hidden="true"></i>${LINK_WORDS[shown]}</span>`
}

function Connection() {
  const { state, away, back } = useValue(link)
  const [, later] = useState(0)
  useEffect(() => {
    const timer = back && setTimeout(() => later(n => n + 1), 5000)
    return () => clearTimeout(timer)
  }, [back])
  if (state === 'lost') {
    return html`<${Note} tone="bad"><strong>The API does not answer.</strong> What you see is from before.
      Trying again; nothing you submitted is lost.</${Note}>`
  }
  if (away) return html`<${Note} tone="bad"><strong>The ledger does not answer the API.</strong> What you see is from before.</${Note}>`
  return back && Date.now() - back < 5000 ? html`<${Note} tone="good">Connected again. Everything is up to date.</${Note}>` : null
}

const Missing = () => html`<${Empty} title="There is no such page.">
  <${Link} page="overview">Go to the overview</${Link}></${Empty}>`

render(html`<${App} />`, document.getElementById('app'))
begin().then(start)

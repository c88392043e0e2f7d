// Who is logged in. The token lives in sessionStorage: this tab's, gone with it, and never in a URL or a cookie.
import { observable } from './observable.js'

const KEPT = 'txmanager.session'
const ASK_MS = 250
const RETRY_MS = 1000

/** `{state: 'starting' | 'in' | 'out', who, why}` */
export const session = observable({ state: 'starting' })

// A tab that was opened from another one asks the tabs of this origin for their session.
const tabs = 'BroadcastChannel' in window ? new BroadcastChannel('txmanager') : null
tabs?.addEventListener('message', ({ data }) => {
  if (data === 'who has a session?' && token()) tabs.postMessage({ token: token() })
})

export const token = () => sessionStorage.getItem(KEPT) ?? ''

/** Log in with the code of the URL's fragment, with the token of this tab, or with that of another tab. */
export async function begin() {
  const code = new URLSearchParams(location.hash.slice(1)).get('code')
  if (code) {
    history.replaceState(null, '', location.pathname + location.search) // a code is no bookmark
    const answer = await insist('POST', '/v1/sessions', { code })
    if (answer.status !== 201) return out(answer.body?.detail ?? 'The API gave no session.')
    sessionStorage.setItem(KEPT, answer.body.token)
  } else if (!token()) {
    const lent = await borrow()
    if (lent) sessionStorage.setItem(KEPT, lent)
  }
  await check()
}

async function check() {
  const answer = await insist('GET', '/v1/session')
  if (answer.status === 200) return session.set({ state: 'in', who: answer.body })
  if (answer.status === 403) return out('This token lacks the scope "read", which every page of the console needs.')
  out(token() ? answer.body.detail : '')
}

/** The server no longer knows the token. */
export function lost(why) {
  if (session.value.state === 'in') out(why)
}

export async function leave() {
  await ask('DELETE', '/v1/session')
  out('You are logged out.')
}

function out(why) {
  sessionStorage.removeItem(KEPT)
  session.set({ state: 'out', why })
}

function borrow() {
  if (!tabs) return null
  return new Promise(resolve => {
    const heard = ({ data }) => data?.token && done(data.token)
    const timer = setTimeout(() => done(null), ASK_MS)
    const done = found => {
      clearTimeout(timer)
      tabs.removeEventListener('message', heard)
      resolve(found)
    }
    tabs.addEventListener('message', heard)
    tabs.postMessage('who has a session?')
  })
}

/** Ask until the API answers: one that is away for a moment logs nobody out. */
async function insist(method, path, body) {
  for (;;) {
    const answer = await ask(method, path, body)
    if (![0, 429, 500, 502, 503, 504].includes(answer.status)) return answer
    session.set({ state: 'starting', why: 'The API does not answer yet. Trying again …' })
    await new Promise(resolve => setTimeout(resolve, RETRY_MS))
  }
}

async function ask(method, path, body) {
  const headers = { ...(token() && { Authorization: `Bearer ${token()}` }), ...(body && { 'Content-Type': 'application/json' }) }
  try {
    const reply = await fetch(path, { method, headers, body: body && JSON.stringify(body) })
    return { status: reply.status, body: await reply.json() }
  } catch {
    return { status: 0 }
  }
}

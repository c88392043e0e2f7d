// Calls of the HTTP API: the session's token on each, every failure a `Problem` in the server's own words.
import { useEffect, useState } from '../vendor/preact.js'
import { lost, token } from './session.js'

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `status ${status}`)
    this.status = status
    this.code = body.code ?? ''
    this.advice = body.do ?? ''
    this.kept = body.kept ?? ''
  }
}

/** What a busy API, or one that is away for a moment, answers. */
export const PASSING = [0, 429, 503]
export const RETRY_MS = 2000
const AWAY = { code: 'away', detail: 'The API does not answer.', do: 'It is tried again by itself.' }

/** `await call('POST', lanePath(lane, 'pause'), { body: { reason } })` */
export async function call(method, path, { query, body, key, signal } = {}) {
  const headers = authorized(body && { 'Content-Type': 'application/json' })
  if (key) headers['Idempotency-Key'] = key
  let reply, told
  try {
    reply = await fetch(path + queryText(query), { method, headers, signal, body: body && JSON.stringify(body) })
    told = await reply.json()
  } catch (error) {
    if (signal?.aborted) throw error
    throw new Problem(reply?.status ?? 0, AWAY)
  }
  if (reply.ok || told.checks) return told // a readiness that says no is an answer too
  const problem = new Problem(reply.status, told)
  if (reply.status === 401) lost(problem.message)
  throw problem
}

export const authorized = more => ({ ...(token() && { Authorization: `Bearer ${token()}` }), ...more })

export function queryText(query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '')
  return given.length ? `?${new URLSearchParams(given)}` : ''
}

export const intentPath = (key, verb = '') => `/v1/intents/${encodeURIComponent(key)}${verb && `/${verb}`}`
export const lanePath = (lane, verb = '') => `/v1/lanes/${encodeURIComponent(lane)}${verb && `/${verb}`}`

/** What a GET answers: `{value, problem, loading, reload}`. It is asked again when path or query change, and every
 * `everyMs` while somebody looks; soon again when the API was busy or away. What was shown stays until the new answer is there. */
export function useGet(path, query, { everyMs = 0, skip = false } = {}) {
  const [state, setState] = useState({ loading: true })
  const [turn, setTurn] = useState(0)
  const asked = skip ? '' : path + queryText(query)
  useEffect(() => {
    if (!asked) return undefined
    const aborting = new AbortController()
    const { signal } = aborting
    setState(before => ({ ...before, loading: true }))
    call('GET', asked, { signal }).then(
      value => signal.aborted || setState({ value, loading: false }),
      problem => {
        if (signal.aborted) return
        setState(before => ({ value: before.value, problem, loading: false }))
        if (PASSING.includes(problem.status)) again = setTimeout(next, RETRY_MS)
      })
    const next = () => document.hidden || setTurn(n => n + 1)
    const timer = everyMs && setInterval(next, everyMs)
    let again
    return () => {
      aborting.abort()
      clearInterval(timer)
      clearTimeout(again)
    }
  }, [asked, turn, everyMs])
  return { ...state, reload: () => setTurn(n => n + 1) }
}

// The one stream of a page: lanes as they change and every transition. A hidden tab closes it; a lost one comes back.
import { authorized } from './api.js'
import { observable } from './observable.js'
import { lost, session } from './session.js'

const KEPT_EVENTS = 300
const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 8000

/** By id, as the newest look has them. Each change is a new Map. */
export const lanes = observable(new Map())
/** Newest first. */
export const events = observable([])
/** `{state: 'off' | 'connecting' | 'live' | 'lost', away, back}`: `away` is the ledger's, `back` when it came back. */
export const link = observable({ state: 'off', away: false })

const watchers = new Set()

/** `listener({events, missed, lanes})` for every look; answers how to stop. */
export function onLook(listener) {
  watchers.add(listener)
  return () => watchers.delete(listener)
}

/** Milliseconds to add to this computer's clock to get the ledger's. */
export let clockAhead = 0

let aborting = null

export function start() {
  document.addEventListener('visibilitychange', follow)
  session.subscribe(follow)
  follow()
}

function follow() {
  const wanted = session.value.state === 'in' && document.visibilityState === 'visible'
  if (wanted && !aborting) run(aborting = new AbortController())
  if (!wanted && aborting) {
    aborting.abort()
    aborting = null
    link.set({ state: 'off', away: false })
  }
}

async function run({ signal }) {
  let pause = FIRST_PAUSE_MS
  let wasLost = false
  link.set({ state: 'connecting', away: false })
  while (!signal.aborted) {
    try {
      await read(signal, () => {
        link.set({ state: 'live', away: false, back: wasLost ? Date.now() : 0 })
        pause = FIRST_PAUSE_MS
        wasLost = false
      })
    } catch (error) {
      if (signal.aborted) return
      if (error.status === 401) return lost('The session is over. Log in again with `txmanager console`.')
    }
    if (signal.aborted) return
    if (!wasLost) link.set({ state: 'lost', away: false })
    wasLost = true
    await new Promise(resolve => setTimeout(resolve, pause * (0.5 + Math.random() / 2)))
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS)
  }
}

async function read(signal, connected) {
  const reply = await fetch('/v1/live', { headers: authorized(), signal })
  if (!reply.ok) throw Object.assign(new Error('refused'), { status: reply.status })
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader()
  let left = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    const parts = (left + value).split('\n\n')
    left = parts.pop()
    for (const part of parts) {
      const line = part.split('\n').find(text => text.startsWith('data: '))
      if (line) take(JSON.parse(line.slice(6)), connected)
    }
  }
}

function take(look, connected) {
  if (look.all) connected()
  if (look.away !== link.value.away) link.set({ ...link.value, away: look.away })
  if (look.at) clockAhead = look.at - Date.now()
  if (look.all || look.lanes.length || look.gone.length) {
    const next = look.all ? new Map() : new Map(lanes.value)
    for (const lane of look.lanes) next.set(lane.lane, { ...lane, seenAt: look.at })
    for (const id of look.gone) next.delete(id)
    lanes.set(next)
  }
  if (look.events.length) events.set([...look.events].reverse().concat(events.value).slice(0, KEPT_EVENTS))
  for (const watcher of watchers) watcher(look)
}

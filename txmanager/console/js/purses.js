// What lanes pay from: read once a minute while somebody looks, for every page that shows a balance.
import { useEffect } from '../vendor/preact.js'
import { call } from './api.js'
import { observable, useValue } from './observable.js'

const EVERY_MS = 60_000
const SOON_MS = 5_000
const SOON_TRIES = 12
const NONE = { list: [], byLane: new Map(), readAt: null }

const purses = observable(NONE)
let readers = 0
let timer = null
let tries = 0

/** `{list, byLane, readAt}`; `byLane` has the purses of each lane, its own before those that it shares. */
export function usePurses() {
  useEffect(() => {
    readers += 1
    if (readers === 1) read()
    return () => {
      readers -= 1
      if (readers === 0) clearTimeout(timer)
    }
  }, [])
  return useValue(purses)
}

async function read() {
  clearTimeout(timer)
  let found = null
  if (!document.hidden) found = await call('GET', '/v1/purses').catch(() => null)
  if (found) purses.set(arranged(found))
  clearTimeout(timer)
  const soon = document.hidden || (!purses.value.readAt && (tries += 1) < SOON_TRIES)
  if (readers > 0) timer = setTimeout(read, soon ? SOON_MS : EVERY_MS)
}

function arranged({ purses: list, read_at: readAt }) {
  const byLane = new Map()
  for (const purse of [...list].sort((a, b) => a.lanes.length - b.lanes.length)) {
    for (const lane of purse.lanes) byLane.set(lane, [...(byLane.get(lane) ?? []), purse])
  }
  return { list, byLane, readAt }
}

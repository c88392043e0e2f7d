// What the configuration says of networks and pools, read once: explorers and the names of money.
import { call } from './api.js'
import { observable } from './observable.js'
import { session } from './session.js'

export const system = observable(null)

session.subscribe(async ({ state }) => {
  if (state === 'in') system.set(await call('GET', '/v1/system').catch(() => null))
})

const networkOf = lane => system.value?.networks.find(network => lane.startsWith(`${network.lanes}:`))

export const unitOf = lane => networkOf(lane)?.unit

/** The page of a transaction at the network's explorer; only http and https, whatever the configuration says. */
export function explorerOf(lane, hash) {
  const explorer = networkOf(lane)?.explorer
  if (!explorer || !/^https?:\/\//.test(explorer)) return null
  return explorer.replace('{hash}', encodeURIComponent(hash))
}

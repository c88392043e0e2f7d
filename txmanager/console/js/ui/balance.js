// What a lane can spend: the purse that runs out first stands for it, all of them are on hover.
import { html } from '../../vendor/preact.js'
import { brief, coins, words } from '../format.js'
import { useValue } from '../observable.js'
import { system, unitOf } from '../system.js'
import { Status } from './status.js'

/** One that is low, or the lane's own before one that it shares. */
const telling = purses => purses.find(purse => purse.is_low) ?? purses[0]

export const inWords = purse => `${words(purse.kind)}: ${coins(purse.balance, unitOf(purse.lanes[0]))}`

export function Balance({ purses }) {
  useValue(system) // it names the coin
  if (!purses?.length) return html`<span class="faint">–</span>`
  const purse = telling(purses)
  const shown = brief(purse.balance, unitOf(purse.lanes[0]))
  const title = purses.map(inWords).join('\n')
  return purse.is_low ? html`<${Status} of="degraded" word=${shown} title=${`Low.\n${title}`} />` : html`<span title=${title}>${shown}</span>`
}

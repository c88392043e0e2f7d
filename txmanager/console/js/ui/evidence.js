// What a lane or an intent stands still for: one fact a line, and what has parts of its own below.
import { html } from '../../vendor/preact.js'
import { words } from '../format.js'
import { Facts, Json } from './notes.js'

export function Evidence({ of }) {
  const plain = Object.entries(of).filter(([, value]) => typeof value !== 'object')
  const rest = Object.fromEntries(Object.entries(of).filter(([, value]) => typeof value === 'object'))
  return html`<${Facts} of=${plain.map(([name, value]) => [words(name), html`<span class="mono">${String(value)}</span>`])} />
    ${Object.keys(rest).length > 0 && html`<details><summary>More evidence</summary><${Json} value=${rest} /></details>`}`
}

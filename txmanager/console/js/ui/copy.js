// An id in monospace, shortened where it must be, with a button that copies the whole.
import { html, useState } from '../../vendor/preact.js'

export function Copy({ text, label = 'Copy' }) {
  const [done, setDone] = useState(false)
  const copy = async event => {
    event.preventDefault()
    event.stopPropagation()
    try {
      await navigator.clipboard.writeText(text)
      setDone(true)
      setTimeout(() => setDone(false), 1200)
    } catch {
      getSelection().selectAllChildren(event.currentTarget.previousElementSibling ?? event.currentTarget)
    }
  }
  return html`<button type="button" class="copy" onClick=${copy} aria-label=${`${label}: ${text}`} title=${label}>
    <svg viewBox="0 0 16 16" aria-hidden="true">${done
      ? html`<path d="M3 8.5l3.2 3.2L13 4.8" />`
      : html`<g><rect x="5.5" y="5.5" width="7.5" height="8" rx="1.5" /><path d="M10.5 3H4.5A1.5 1.5 0 0 0 3 4.5v6.5" /></g>`}</svg>
  </button>`
}

export const Id = ({ text, shown = text, children }) =>
  html`<span class="id"><span class="mono" title=${text}>${children ?? shown}</span><${Copy} text=${text} /></span>`

// The one dialog: it says what is about to happen and what it risks. What cannot be taken back wants a typed word.
import { html, useEffect, useRef, useState } from '../../vendor/preact.js'
import { observable, useValue } from '../observable.js'
import { Trouble } from './notes.js'

const asked = observable(null)

/** `confirm({title, body, risk, verb, word, tone, act})`: `act` runs when the user agrees; its problem stays in the
 * dialog. With `fields`, `[{name, label, value, rows}]`, what was typed is handed to `act`. */
export const confirm = question => asked.set(question)

export function Dialog() {
  const question = useValue(asked)
  return question && html`<${Question} key=${question.title} ...${question} />`
}

function Question({ title, body, risk, verb, word, fields = [], tone = 'warn', act }) {
  const dialog = useRef(null)
  const [typed, setTyped] = useState('')
  const [values, setValues] = useState(() => Object.fromEntries(fields.map(field => [field.name, field.value ?? ''])))
  const [busy, setBusy] = useState('')
  const [problem, setProblem] = useState(null)
  useEffect(() => {
    const before = document.activeElement
    dialog.current.showModal()
    return () => before?.focus?.()
  }, [])
  const close = () => asked.set(null)
  const submit = async event => {
    event.preventDefault()
    if (busy || (word && typed.trim() !== word)) return
    setBusy('Working …')
    setProblem(null)
    try {
      await act(values, setBusy)
      close()
    } catch (error) {
      setProblem(error)
      setBusy('')
    }
  }
  return html`<dialog ref=${dialog} class="dialog" aria-labelledby="dialog-title" onCancel=${close}>
    <form method="dialog" onSubmit=${submit}>
      <h2 id="dialog-title">${title}</h2>
      <div class="dialog-body">${body}</div>
      ${risk && html`<div class=${`note tone-${tone}`}><div><strong>What it risks.</strong> ${risk}</div></div>`}
      ${fields.map(field => html`<label key=${field.name}>${field.label}
        ${field.rows
          ? html`<textarea rows=${field.rows} class="mono" value=${values[field.name]} onInput=${e => setValues({ ...values, [field.name]: e.target.value })}></textarea>`
          : html`<input class=${field.mono ? 'mono' : ''} value=${values[field.name]} onInput=${e => setValues({ ...values, [field.name]: e.target.value })} />`}
      </label>`)}
      ${word && html`<label><span>Type <code>${word}</code> to go on</span>
        <input class="mono" autocomplete="off" spellcheck="false" value=${typed} onInput=${e => setTyped(e.target.value)} /></label>`}
      <${Trouble} problem=${problem} />
      <div class="dialog-verbs">
        <span class="faint" role="status">${busy}</span>
        <button type="button" onClick=${close}>Keep as it is</button>
        <button type="submit" class=${`primary tone-${tone}`} disabled=${Boolean(busy) || (word && typed.trim() !== word)}>${verb}</button>
      </div>
    </form>
  </dialog>`
}

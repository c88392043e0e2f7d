// A value that tells when it changes, and a hook that renders again then.
import { useEffect, useState } from '../vendor/preact.js'

export function observable(value) {
  const listeners = new Set()
  return {
    get value() { return value },
    set(next) {
      value = next
      for (const listener of [...listeners]) listener(next)
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

export function useValue(source) {
  const [, render] = useState(0)
  useEffect(() => source.subscribe(() => render(n => n + 1)), [source])
  return source.value
}

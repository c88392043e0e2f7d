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
  const [value, setValue] = useState(source.value)
  useEffect(() => {
    setValue(source.value) // it may have changed between the render and this effect
    return source.subscribe(setValue)
  }, [source])
  return value
}

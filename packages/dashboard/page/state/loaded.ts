import { type Signal, signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { errorText, getJson } from './api.ts'

/** Incremented when an action has changed something, so that pages load again. */
export const revision: Signal<number> = signal(0)

export interface Loaded<T> {
  /** Of the last request that succeeded. */
  readonly data: T | undefined
  readonly error: string | undefined
  readonly loading: boolean
  reload(): void
}

/** Loads a path of the API, and again when the path changes, after an action and on `reload()`. `undefined`: nothing to load. */
export function useLoaded<T>(path: string | undefined): Loaded<T> {
  const data = useSignal<T | undefined>(undefined)
  const error = useSignal<string | undefined>(undefined)
  const loading = useSignal(path !== undefined)
  const reloads = useSignal(0)

  useEffect(() => {
    if (path === undefined) return
    const controller = new AbortController()
    loading.value = true
    getJson<T>(path, controller.signal)
      .then((loaded) => {
        data.value = loaded
        error.value = undefined
        loading.value = false
      })
      .catch((reason: unknown) => {
        if (controller.signal.aborted) return
        data.value = undefined
        error.value = errorText(reason)
        loading.value = false
      })
    return () => controller.abort()
  }, [path, reloads.value, revision.value])

  return {
    data: data.value,
    error: error.value,
    loading: loading.value,
    reload() {
      reloads.value += 1
    },
  }
}

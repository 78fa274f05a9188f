/** A signal that is aborted when all of the given ones are. Disposing it removes its listeners: the signals of messages live long. */
export function abortedByAll(given: readonly AbortSignal[]): Disposable & { readonly signal: AbortSignal } {
  const signals = new Set(given)
  const [first] = signals
  // Most messages share the signal of their router.
  if (first !== undefined && signals.size === 1) return { signal: first, [Symbol.dispose]() {} }
  const controller = new AbortController()
  const onAbort = () => {
    if ([...signals].every(({ aborted }) => aborted)) controller.abort(first?.reason)
  }
  for (const signal of signals) signal.addEventListener('abort', onAbort)
  onAbort()
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      for (const signal of signals) signal.removeEventListener('abort', onAbort)
    },
  }
}

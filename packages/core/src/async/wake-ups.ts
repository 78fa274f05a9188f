/**
 * Yields once for any number of calls of `hint` since the last time. `listen` receives `hint`, and returns a function that ends the listening. Ends
 * when the signal is aborted.
 */
export async function* eachWakeUp(listen: (hint: () => void) => () => void, signal: AbortSignal): AsyncGenerator<void, void, void> {
  let hinted = false
  let resume: (() => void) | undefined
  const hint = () => {
    hinted = true
    resume?.()
  }
  const unlisten = listen(hint)
  signal.addEventListener('abort', hint, { once: true })
  try {
    while (!signal.aborted) {
      if (!hinted) {
        await new Promise<void>((resolve) => {
          resume = resolve
        })
      }
      hinted = false
      if (!signal.aborted) yield
    }
  } finally {
    unlisten()
    signal.removeEventListener('abort', hint)
  }
}
